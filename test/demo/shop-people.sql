-- Categories, products, customers and their addresses.
USE shop;

INSERT INTO category
  SELECT IF(n < 12, ELT(n + 1, 'Bücher', 'Musik', 'Haus & Garten', 'Spielzeug', 'Élégance', 'Technik', 'Sport',
                        'Büro', 'Küche', '日本', 'Ελλάδα', 'Ñandú'),
            CONCAT('group-', LPAD(n, 3, '0'))),
         IF(n < 12, NULL, ELT(n % 12 + 1, 'Bücher', 'Musik', 'Haus & Garten', 'Spielzeug', 'Élégance', 'Technik',
                              'Sport', 'Büro', 'Küche', '日本', 'Ελλάδα', 'Ñandú')),
         CONCAT(ELT(n % 5 + 1, 'Neu: ', 'Alles für ', 'Tout pour ', 'Todo sobre ', 'すべて '), n),
         n * 10 - 500, n % 7 <> 0
  FROM shop_load.number WHERE n < 200;

INSERT INTO product
  SELECT n + 1, CONCAT('P-', LPAD(HEX(n * 2654435761 % 4294967296), 8, '0')),
         (SELECT code FROM category WHERE sort_order = (n % 200) * 10 - 500),
         CONCAT(ELT(n % 8 + 1, 'Tasse', 'Stuhl', 'Lampe', 'Œuvre', 'Boîte', 'Niño', '椅子', 'Kniha'), ' ', n),
         REPEAT(CONCAT('Gewicht, Größe und Farbe können abweichen. № ', n, '. '), n % 9),
         ROUND(1 + n % 977 * 1.37, 2), IF(n % 3, 0.19, 0.07), n % 401 / 7, ROUND(n % 50 / 10, 1),
         n % 5000 - 100, IF(n % 11, 1990 + n % 36, NULL),
         n % 32, n % 1024,
         JSON_OBJECT('color', ELT(n % 4 + 1, 'rot', 'grün', 'weiß', 'noir'), 'size', JSON_ARRAY(n % 10, n / 8e0, n % 3 = 0),
                     'maker', IF(n % 6, JSON_OBJECT('id', n % 500, 'since', 1900 + n % 100), NULL)),
         IF(n % 10 = 0, RANDOM_BYTES(64 + n % 300), NULL),
         ELT(n % 4 + 1, 'Müller & Söhne', 'Café Noir', 'Peña y Cía', '€uro Trade'),
         '2024-01-01 00:00:00.250' + INTERVAL n MINUTE
  FROM shop_load.number WHERE n < 20000;

INSERT INTO customer
  SELECT n + 1, UUID_TO_BIN(UUID()),
         CONCAT(ELT(n % 10 + 1, 'Anna', 'Björn', 'Chloé', 'Đorđe', 'Εύα', 'Fatima', 'Grzegorz', 'Hồng', '伊藤', 'José'),
                ' ', ELT(n DIV 10 % 10 + 1, 'Schmidt', 'Åkesson', 'Lefèvre', 'Živković', 'Παπαδόπουλος', 'Al-Sayed',
                         'Wójcik', 'Nguyễn', '健', 'Muñoz')),
         CONCAT('kunde', n, '@example.', ELT(n % 3 + 1, 'com', 'org', 'net')),
         n * 7 % 4 + 1, n % 16, IF(n % 13, '1940-01-01' + INTERVAL n * 37 % 24000 DAY, NULL),
         n % 1000 * 1.01 - 200,
         IF(n % 4, JSON_OBJECT('lang', ELT(n % 5 + 1, 'de', 'fr', 'cs', 'el', 'ja'), 'news', n % 2 = 0, 'limit', n % 90 / 4), NULL),
         IF(n % 20, NULL, CONCAT('Rückruf erbeten, früh – „', n, '“')), n % 50 <> 0,
         '2015-06-01 12:00:00' + INTERVAL n * 4217 SECOND,
         IF(n % 3, '2024-02-29 23:59:59.999999' - INTERVAL n * 7919 MICROSECOND, NULL)
  FROM shop_load.number WHERE n < 60000;

INSERT INTO address
  SELECT n + 1, n % 60000 + 1, IF(n < 60000, 'billing', 'shipping'),
         CONCAT(ELT(n % 6 + 1, 'Hauptstraße', 'Rue de l''Église', 'Calle Mayor', 'Žižkova', '本町', 'Main Street'), ' ', n % 200 + 1),
         ELT(n % 9 + 1, 'Köln', 'Orléans', 'Málaga', 'Brno', '大阪', 'Leeds', 'Θεσσαλονίκη', 'Łódź', 'Ávila'),
         LPAD(n * 13 % 100000, 5, '0'), ELT(n % 9 + 1, 'DE', 'FR', 'ES', 'CZ', 'JP', 'GB', 'GR', 'PL', 'ES')
  FROM shop_load.number WHERE n < 90000;
