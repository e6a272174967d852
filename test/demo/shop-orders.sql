-- Orders, their lines, payments and what moved in the warehouse.
USE shop;

INSERT INTO orders
  SELECT n + 1, n * 31 % 60000 + 1, n % 6 + 1, n % 90000 / 100 + 5, ELT(n % 4 + 1, 'EUR', 'CHF', 'CZK', 'JPY'),
         '2023-01-01' + INTERVAL n * 150 SECOND + INTERVAL n * 37 % 1000000 MICROSECOND,
         '2023-01-02' + INTERVAL n * 151 SECOND,
         IF(n % 4, MAKETIME(n % 24, n % 60, 0), NULL),
         IF(n % 8, NULL, ELT(n % 3 + 1, 'bitte klingeln 🔔', 'à la réception', 'zwischen "9" und 12'))
  FROM shop_load.number WHERE n < 200000;

INSERT INTO order_line
  SELECT n DIV 11 * 4 + (n % 11) DIV 3 + 1, n % 11 % 3 + 1, n * 17 % 20000 + 1, n % 9 + 1, n % 977 * 1.37 + 1, n % 20 / 40
  FROM shop_load.number WHERE n < 550000;

INSERT INTO payment
  SELECT UNHEX(LEFT(SHA2(CONCAT('payment', n), 256), 32)), n + 1, n % 90000 / 100 + 5, n % 4 + 1,
         IF(n % 6, '2023-01-01 08:00:00' + INTERVAL n * 150 SECOND + INTERVAL n * 11 % 1000000 MICROSECOND, NULL),
         IF(n % 5, UNHEX(LEFT(SHA2(n, 256), 40)), NULL)
  FROM shop_load.number WHERE n < 180000;

INSERT INTO stock_movement
  SELECT n + 1, n * 17 % 20000 + 1, n % 100 - 50, n % 4, IF(n % 3, ELT(n % 4 + 1, 'Verkauf', 'Rückgabe', 'Inventur', 'livré'), NULL),
         '2023-01-01' + INTERVAL n * 200 SECOND + INTERVAL n % 1000 * 1000 MICROSECOND
  FROM shop_load.number WHERE n < 150000;
