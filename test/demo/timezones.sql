-- MySQL's own time-zone tables, loaded by mysql_tzinfo_to_sql, in a schema that can be
-- replicated (the schema "mysql" cannot).
CREATE DATABASE tz;
USE tz;

CREATE TABLE time_zone (
  Time_zone_id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  Use_leap_seconds ENUM('Y','N') CHARACTER SET utf8mb3 NOT NULL DEFAULT 'N');
CREATE TABLE time_zone_name (
  Name CHAR(64) CHARACTER SET utf8mb3 NOT NULL PRIMARY KEY,
  Time_zone_id INT UNSIGNED NOT NULL);
CREATE TABLE time_zone_transition (
  Time_zone_id INT UNSIGNED NOT NULL,
  Transition_time BIGINT NOT NULL,
  Transition_type_id INT UNSIGNED NOT NULL,
  PRIMARY KEY (Time_zone_id, Transition_time));
CREATE TABLE time_zone_transition_type (
  Time_zone_id INT UNSIGNED NOT NULL,
  Transition_type_id INT UNSIGNED NOT NULL,
  `Offset` INT NOT NULL DEFAULT 0,
  Is_DST TINYINT UNSIGNED NOT NULL DEFAULT 0,
  Abbreviation CHAR(8) CHARACTER SET utf8mb3 NOT NULL DEFAULT '',
  PRIMARY KEY (Time_zone_id, Transition_type_id));
CREATE TABLE time_zone_leap_second (
  Transition_time BIGINT NOT NULL PRIMARY KEY,
  Correction INT NOT NULL);

INSERT INTO time_zone SELECT * FROM mysql.time_zone;
INSERT INTO time_zone_name SELECT * FROM mysql.time_zone_name;
INSERT INTO time_zone_transition SELECT * FROM mysql.time_zone_transition;
INSERT INTO time_zone_transition_type SELECT * FROM mysql.time_zone_transition_type;
INSERT INTO time_zone_leap_second SELECT * FROM mysql.time_zone_leap_second;
