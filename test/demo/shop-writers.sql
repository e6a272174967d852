-- What goes on in the shop while it is copied: each call of shop_load.work is one
-- writer, which works until shop_load.control says stop. Every step is one transaction
-- over several tables; the steps insert, update, delete, roll back, and change keys of
-- every kind.
USE shop_load;

DELIMITER //

CREATE PROCEDURE work(writer INT)
BEGIN
  DECLARE stopped, step INT DEFAULT 0;
  DECLARE a, b BIGINT;
  -- Two writers may meet; the loser goes on with its next step.
  DECLARE CONTINUE HANDLER FOR 1205, 1213 ROLLBACK;
  DECLARE CONTINUE HANDLER FOR 1062 ROLLBACK;

  WHILE NOT stopped DO
    SET step = step + 1;
    SET a = FLOOR(1 + RAND() * 200000), b = FLOOR(1 + RAND() * 20000);
    CASE FLOOR(RAND() * 10)
    WHEN 0 THEN CALL place_order(b); CALL place_order(b DIV 2 + 1);
    WHEN 1 THEN CALL place_order(b);
    WHEN 2 THEN CALL drop_order(a);
    WHEN 3 THEN
      UPDATE shop.orders SET status = status % 6 + 1, remark = CONCAT('état ', step) WHERE id BETWEEN a AND a + 20;
    WHEN 4 THEN
      START TRANSACTION;
      UPDATE shop.product SET in_stock = in_stock - 1, price = price * 1.01, rating = RAND() * 5,
        attributes = JSON_SET(attributes, '$.seen', step, '$.color', 'žlutá'), flags = flags ^ 5 WHERE id = b;
      INSERT INTO shop.stock_movement (product_id, delta, warehouse, reason, moved_at) VALUES (b, -1, writer, 'Verkauf', NOW(3));
      COMMIT;
    WHEN 5 THEN
      -- Composite key, one part and both.
      START TRANSACTION;
      UPDATE shop.order_line SET line_no = line_no + 1000 WHERE order_id = a AND line_no < 1000;
      UPDATE shop.order_line SET order_id = order_id + 1, line_no = line_no + 2000 + step % 1000 WHERE order_id = a LIMIT 1;
      COMMIT;
    WHEN 6 THEN
      -- Binary key; string key: by case, by accent, and to another name and back.
      UPDATE shop.payment SET id = RANDOM_BYTES(16) WHERE order_id = a;
      UPDATE shop.category SET code = CASE WHEN code = BINARY 'Küche' THEN 'KÜCHE' WHEN code = BINARY 'KÜCHE' THEN 'Kuche' ELSE 'Küche' END
        WHERE code = 'küche';
      UPDATE shop.category SET code = IF(code LIKE 'group-%', CONCAT('zone-', SUBSTR(code, 7)), CONCAT('group-', SUBSTR(code, 6)))
        WHERE sort_order = b % 180 * 10 - 300;
    WHEN 7 THEN
      UPDATE shop.customer SET seen_at = NOW(6), credit = credit + 0.01, tier = (tier + 0) % 4 + 1,
        preferences = JSON_SET(COALESCE(preferences, '{}'), '$.visits', step, '$.ratio', step / 7e0) WHERE id = a % 60000 + 1;
      -- An integer key moves beyond the end, where new rows also come.
      UPDATE shop.address SET id = id + 1000000 WHERE id = b;
    WHEN 8 THEN
      START TRANSACTION;
      UPDATE shop.customer SET name = 'nobody' WHERE id < 50;
      DELETE FROM shop.stock_movement WHERE id BETWEEN a AND a + 500;
      ROLLBACK;
      -- Two rows swap a unique value.
      START TRANSACTION;
      UPDATE shop.product SET sku = CONCAT('swap-', writer) WHERE id = b;
      COMMIT;
      UPDATE shop.product SET sku = CONCAT('Q-', LPAD(HEX(b), 6, '0'), '-', writer) WHERE id = b;
    ELSE
      DELETE FROM shop.stock_movement WHERE id BETWEEN a AND a + 3;
      REPLACE INTO shop.order_line VALUES (a, 1, b, 1, 9.99, 0);
      UPDATE tz.time_zone_name SET Name = IF(Name = 'Europe/Kyiv', 'Europe/Kiev2', 'Europe/Kyiv')
        WHERE Name IN ('Europe/Kyiv', 'Europe/Kiev2');
    END CASE;
    DO SLEEP(0.004);
    SELECT stop INTO stopped FROM control;
  END WHILE;
END //

CREATE PROCEDURE place_order(product BIGINT)
BEGIN
  DECLARE o BIGINT;

  START TRANSACTION;
  INSERT INTO shop.orders (customer_id, total, currency, ordered_at, deliver_from, remark)
    VALUES (product * 3, RAND() * 500, 'EUR', NOW(6), '17:30:00', 'sofort, s''il vous plaît 🙏');
  SET o = LAST_INSERT_ID();
  INSERT INTO shop.order_line VALUES (o, 1, product, 2, 19.99, 0.1), (o, 2, product % 7 + 1, 1, 5, 0), (o, 3, product % 11 + 1, 4, 0.5, 0.025);
  INSERT INTO shop.payment VALUES (RANDOM_BYTES(16), o, 45.48, 'wallet', NOW(6), RANDOM_BYTES(20));
  UPDATE shop.product SET in_stock = in_stock - 2 WHERE id = product;
  COMMIT;
END //

CREATE PROCEDURE drop_order(o BIGINT)
BEGIN
  START TRANSACTION;
  DELETE FROM shop.payment WHERE order_id = o;
  DELETE FROM shop.order_line WHERE order_id = o;
  DELETE FROM shop.orders WHERE id = o;
  COMMIT;
END //

DELIMITER ;
