-- The shop: eight tables with all the everyday types, one with a string as its key, one
-- with a composite key, one with a binary key.

CREATE DATABASE shop CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci;
USE shop;

CREATE TABLE category (
  code         VARCHAR(32) NOT NULL PRIMARY KEY,
  parent_code  VARCHAR(32),
  title        VARCHAR(120) NOT NULL,
  sort_order   SMALLINT NOT NULL DEFAULT 0,
  visible      BIT(1) NOT NULL DEFAULT b'1'
);

CREATE TABLE product (
  id           INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  sku          VARCHAR(20) CHARACTER SET ascii NOT NULL UNIQUE,
  category     VARCHAR(32) NOT NULL,
  title        VARCHAR(200) NOT NULL,
  description  TEXT,
  price        DECIMAL(10,2) NOT NULL,
  tax_rate     DECIMAL(5,4) NOT NULL,
  weight_kg    DOUBLE,
  rating       FLOAT,
  in_stock     MEDIUMINT NOT NULL,
  model_year   YEAR,
  features     SET('new','sale','fragile','bulky','eco') NOT NULL DEFAULT '',
  flags        BIT(10) NOT NULL DEFAULT b'0',
  attributes   JSON,
  thumbnail    BLOB,
  supplier     VARCHAR(80) CHARACTER SET latin1,
  updated_at   TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3),
  KEY (category)
);

CREATE TABLE customer (
  id           BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  uuid         BINARY(16) NOT NULL UNIQUE,
  name         VARCHAR(120) NOT NULL,
  email        VARCHAR(160) NOT NULL,
  tier         ENUM('basic','silver','gold','platinum') NOT NULL DEFAULT 'basic',
  channels     SET('mail','sms','push','post') NOT NULL DEFAULT 'mail',
  born_on      DATE,
  credit       DECIMAL(12,2) NOT NULL DEFAULT 0,
  preferences  JSON,
  notes        TEXT CHARACTER SET utf8mb3,
  active       TINYINT(1) NOT NULL DEFAULT 1,
  created_at   TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
  seen_at      DATETIME(6)
);

CREATE TABLE address (
  id           BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  customer_id  BIGINT UNSIGNED NOT NULL,
  kind         ENUM('billing','shipping') NOT NULL,
  street       VARCHAR(120) NOT NULL,
  city         VARCHAR(80) NOT NULL,
  postcode     CHAR(10) NOT NULL,
  country      CHAR(2) CHARACTER SET ascii NOT NULL,
  KEY (customer_id)
);

CREATE TABLE orders (
  id           BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  customer_id  BIGINT UNSIGNED NOT NULL,
  status       ENUM('new','paid','packed','shipped','done','returned') NOT NULL DEFAULT 'new',
  total        DECIMAL(12,2) NOT NULL,
  currency     CHAR(3) CHARACTER SET ascii NOT NULL,
  ordered_at   DATETIME(6) NOT NULL,
  changed_at   TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6),
  deliver_from TIME,
  remark       VARCHAR(255),
  KEY (customer_id)
);

CREATE TABLE order_line (
  order_id     BIGINT NOT NULL,
  line_no      SMALLINT UNSIGNED NOT NULL,
  product_id   INT UNSIGNED NOT NULL,
  quantity     TINYINT UNSIGNED NOT NULL,
  unit_price   DECIMAL(10,2) NOT NULL,
  discount     FLOAT NOT NULL DEFAULT 0,
  PRIMARY KEY (order_id, line_no)
);

CREATE TABLE payment (
  id           BINARY(16) NOT NULL PRIMARY KEY,
  order_id     BIGINT NOT NULL,
  amount       DECIMAL(12,2) NOT NULL,
  method       ENUM('card','transfer','invoice','wallet') NOT NULL,
  paid_at      TIMESTAMP(6) NULL,
  signature    VARBINARY(40),
  KEY (order_id)
);

CREATE TABLE stock_movement (
  id           BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  product_id   INT UNSIGNED NOT NULL,
  delta        SMALLINT NOT NULL,
  warehouse    TINYINT UNSIGNED NOT NULL,
  reason       VARCHAR(60),
  moved_at     DATETIME(3) NOT NULL
);

-- What the writers need; it is not replicated.
CREATE DATABASE shop_load;
CREATE TABLE shop_load.control (stop TINYINT NOT NULL);
INSERT INTO shop_load.control VALUES (0);
CREATE TABLE shop_load.number (n INT NOT NULL PRIMARY KEY);
SET cte_max_recursion_depth = 1000;
INSERT INTO shop_load.number
  WITH RECURSIVE d (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM d WHERE i < 999)
  SELECT a.i * 1000 + b.i FROM d a, d b WHERE a.i < 550;
