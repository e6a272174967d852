/*
 * jsondiff.c
 *		The JSON differences of PARTIAL_UPDATE_ROWS events, applied to a document: that of the before image, which is binary, or,
 *		where the image does not have it, the text of the one that is stored.
 *
 * Format (Json_diff_vector in MySQL's sql/json_diff.cc):
 *
 *	   { u8 operation, lenenc length, path, and unless it removes: lenenc length, binary JSON }
 *			operations 0 replace, 1 insert, 2 remove
 *
 * Paths are the server's JSON paths without wildcards: $.name, $."quoted name", $[3], $[last], $[last-2], and longer ones; that an index
 * may be meant for what is no array, the server has worked in before.  An insert before the first element goes to the front, one behind
 * the last to the end (Json_array_index in MySQL's sql-common/json_path.h).
 * Replace and remove need something at the path, insert into an object needs nothing there; insert into an array
 * shifts what is behind.  A difference that does not fit the document means that the document is not the one it was made
 * for, and is an error.
 *
 * The document is opened only along the paths; all else is printed from its bytes, and of a text taken over as it is.  The text of a container is
 * made of the texts of its members and nothing else, so what comes out is what the whole new document would print.  Of an opened container eight bytes a
 * member are kept, which say where in the document it stands; a member of its own is made of those alone that a path leads to.
 */
#include "binlog/json_internal.h"

#include "base/memory.h"

/*
 * Members that all differences of one document together may move: inserting and removing at the front of an array again and again
 * takes quadratic time, some seconds up to here.  The server moves as many to make them.
 */
#define MOVES_MAX (UINT64_C(1) << 30)

enum
{
	DIFF_REPLACE = 0,
	DIFF_INSERT = 1,
	DIFF_REMOVE = 2
};

typedef struct JsonNode JsonNode;
typedef struct JsonMember JsonMember;

struct JsonNode
{
	bool		is_text;		/* value is a text; type means nothing */
	JsonValue	value;			/* in the document; if opened, what the places are in */
	bool		opened;
	bool		is_object;
	JsonContainer container;	/* of a binary value */
	size_t		count;
	size_t		capacity;
	uint64_t   *members;		/* JsonMember *, or a place in the document: see place_of */
};

struct JsonMember
{
	SourceBytes key;			/* in an object; in the document, or owned */
	char	   *owned_key;
	JsonNode	node;
};

typedef struct JsonPatch
{
	size_t		nodes;			/* how many more members may be made: opening the same bytes again and again ends here */
	uint64_t	moves;			/* members moved so far */
	CapstanError *error;
} JsonPatch;

/* One step of a path. */
typedef struct PathLeg
{
	bool		is_member;
	StrBuf		name;			/* of a member; owned by the path's reader */
	uint64_t	index;			/* in an array */
	bool		from_end;		/* index counts back from the last element */
} PathLeg;

static bool
malformed(JsonPatch *patch)
{
	return capstan_error(patch->error, CAPSTAN_ERROR_MALFORMED, "JSON difference is malformed");
}

static bool
does_not_fit(JsonPatch *patch)
{
	return capstan_error(patch->error, CAPSTAN_ERROR_MALFORMED, "JSON difference does not fit the document it is for");
}

/* Counts the members behind `at`, which have to be moved. */
static bool
may_move(JsonPatch *patch, const JsonNode *node, size_t at)
{
	patch->moves += node->count - at;
	if (patch->moves > MOVES_MAX)
		return capstan_error(patch->error, CAPSTAN_ERROR_LIMIT, "JSON differences insert and remove too much");
	return true;
}

/* ---- the document ---- */

static SourceBytes
text_of(const JsonNode *node)
{
	SourceBytes text = {(const char *) node->value.data, node->value.length};

	return text;
}

static void
set_text(JsonNode *node, const SourceBytes *text)
{
	node->is_text = true;
	node->value.data = (const uint8_t *) text->data;
	node->value.length = text->length;
}

static bool
is_container(const JsonNode *node)
{
	SourceBytes text = text_of(node);

	if (node->opened)
		return true;
	return node->is_text ? capstan_json_text_is_container(&text) : node->value.type <= JSON_LARGE_ARRAY;
}

static void free_node(JsonNode *node);

/* A member as it stands in the document: its number, or in a text the offset behind the member before it.  Pointers are even. */
static uint64_t
place(uint64_t at)
{
	return at << 1 | 1;
}

static JsonMember *
member_of(const JsonNode *node, size_t at)
{
	return (node->members[at] & 1) != 0 ? NULL : (JsonMember *) (uintptr_t) node->members[at];
}

static void
free_member(JsonMember *member)
{
	if (member == NULL)
		return;
	capstan_free(member->owned_key);
	free_node(&member->node);
	capstan_free(member);
}

static void
free_node(JsonNode *node)
{
	if (!node->opened)
		return;
	for (size_t i = 0; i < node->count; i++)
		free_member(member_of(node, i));
	capstan_free(node->members);
}

static void
set_members(JsonNode *node, bool is_object, uint64_t *members, size_t count, size_t capacity)
{
	node->opened = true;
	node->is_object = is_object;
	node->members = members;
	node->count = count;
	node->capacity = capacity;
}

/* The next member of a text, from a place in it. */
static JsonTextNext
text_next(const JsonNode *node, uint64_t offset, SourceBytes *key, SourceBytes *value)
{
	SourceBytes text = text_of(node);
	JsonTextContainer container;
	const uint8_t *start;

	capstan_json_text_open(&text, &container);
	start = container.reader.pos;
	container.reader.pos = (const uint8_t *) text.data + offset;
	container.first = container.reader.pos == start;
	return capstan_json_text_next(&container, key, value);
}

/* A member that stands in the document.  All of them were looked at when it was opened. */
static void
member_in_document(const JsonNode *node, size_t at, SourceBytes *key, JsonNode *member)
{
	uint64_t	where = node->members[at] >> 1;
	SourceBytes value;

	memset(member, 0, sizeof(*member));
	if (!node->is_text)
		(void) capstan_json_element(&node->container, where, key, &member->value);
	else if (text_next(node, where, key, &value) == JSON_TEXT_MEMBER)
		set_text(member, &value);
}

/* A text's key as it is meant; one without escapes is used where it is.  What is not NULL then is to be freed. */
static bool
mean_key(SourceBytes *key, char **owned)
{
	StrBuf		unescaped;

	*owned = NULL;
	if (key->length == 0 || memchr(key->data, '\\', key->length) == NULL)
		return true;
	capstan_strbuf_init(&unescaped);
	if (!capstan_json_text_unescape(key, &unescaped))
	{
		capstan_strbuf_free(&unescaped);
		return false;
	}
	*owned = unescaped.data;
	key->data = unescaped.data;
	key->length = unescaped.length;
	return true;
}

/* The member as one of its own. */
static JsonMember *
take_member(JsonNode *node, size_t at)
{
	JsonMember *member = member_of(node, at);

	if (member != NULL)
		return member;
	member = capstan_alloc0(sizeof(JsonMember));
	member_in_document(node, at, &member->key, &member->node);
	if (node->is_text && node->is_object)
		(void) mean_key(&member->key, &member->owned_key);
	node->members[at] = (uint64_t) (uintptr_t) member;
	return member;
}

static bool
open_text(JsonPatch *patch, JsonNode *node)
{
	SourceBytes text = text_of(node);
	JsonTextContainer container;
	JsonTextNext next = JSON_TEXT_MALFORMED;
	SourceBytes key = {NULL, 0};
	SourceBytes value;
	uint64_t   *members = capstan_alloc(8 * sizeof(uint64_t));
	size_t		count = 0;
	size_t		capacity = 8;
	bool		good = true;

	capstan_json_text_open(&text, &container);
	while (good)
	{
		uint64_t	offset = (uint64_t) (container.reader.pos - (const uint8_t *) text.data);
		char	   *owned = NULL;

		next = capstan_json_text_next(&container, &key, &value);
		if (next != JSON_TEXT_MEMBER)
			break;
		if (count == capacity)
		{
			capacity *= 2;
			members = capstan_realloc(members, capacity * sizeof(uint64_t));
		}
		members[count++] = place(offset);
		good = count <= patch->nodes && (!container.is_object || mean_key(&key, &owned));
		capstan_free(owned);
	}
	patch->nodes -= count <= patch->nodes ? count : patch->nodes;
	set_members(node, container.is_object, members, count, capacity);
	return good && next == JSON_TEXT_END ? true : does_not_fit(patch);
}

static bool
open_node(JsonPatch *patch, JsonNode *node)
{
	JsonContainer *container = &node->container;
	uint64_t   *members;

	if (node->opened)
		return true;
	if (node->is_text)
		return open_text(patch, node);
	if (!capstan_json_open(&node->value, container) || container->count > patch->nodes)
		return malformed(patch);
	patch->nodes -= (size_t) container->count;
	members = capstan_alloc(((size_t) container->count + 1) * sizeof(uint64_t));
	for (uint64_t i = 0; i < container->count; i++)
	{
		SourceBytes key;
		JsonValue	value;

		if (!capstan_json_element(container, i, &key, &value))
		{
			capstan_free(members);
			return malformed(patch);
		}
		members[i] = place(i);
	}
	set_members(node, container->is_object, members, (size_t) container->count, (size_t) container->count + 1);
	return true;
}

/* Keys are ordered by length, then bytes. */
static int
compare_keys(const SourceBytes *key, const StrBuf *name)
{
	if (key->length != name->length)
		return key->length < name->length ? -1 : 1;
	return name->length == 0 ? 0 : memcmp(key->data, name->data, name->length);
}

static int
compare_member(const JsonNode *node, size_t at, const StrBuf *name)
{
	const JsonMember *member = member_of(node, at);
	JsonNode	unused;
	SourceBytes key = {NULL, 0};
	char	   *owned = NULL;
	int			order;

	if (member != NULL)
		return compare_keys(&member->key, name);
	member_in_document(node, at, &key, &unused);
	if (node->is_text)
		(void) mean_key(&key, &owned);
	order = compare_keys(&key, name);
	capstan_free(owned);
	return order;
}

/* Where the leg's member is, or where it would have to be. */
static size_t
find_member(const JsonNode *node, const PathLeg *leg, bool *found)
{
	size_t		low = 0;
	size_t		high = node->count;

	if (!leg->is_member)
	{
		*found = leg->index < node->count;
		if (leg->from_end)
			return *found ? node->count - 1 - (size_t) leg->index : 0;
		return *found ? (size_t) leg->index : node->count;
	}
	while (low < high)
	{
		size_t		middle = low + (high - low) / 2;
		int			order = compare_member(node, middle, &leg->name);

		if (order == 0)
		{
			*found = true;
			return middle;
		}
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	*found = false;
	return low;
}

static void
insert_member(JsonNode *node, size_t at, const PathLeg *leg, const JsonValue *value)
{
	JsonMember *member;

	if (node->count == node->capacity)
	{
		node->capacity *= 2;
		node->members = capstan_realloc(node->members, node->capacity * sizeof(uint64_t));
	}
	memmove(&node->members[at + 1], &node->members[at], (node->count - at) * sizeof(uint64_t));
	node->count++;
	member = capstan_alloc0(sizeof(JsonMember));
	node->members[at] = (uint64_t) (uintptr_t) member;
	member->node.value = *value;
	if (leg->is_member)
	{
		member->owned_key = capstan_alloc(leg->name.length + 1);
		memcpy(member->owned_key, leg->name.data, leg->name.length + 1);
		member->key.data = member->owned_key;
		member->key.length = leg->name.length;
	}
}

static void
remove_member(JsonNode *node, size_t at)
{
	free_member(member_of(node, at));
	memmove(&node->members[at], &node->members[at + 1], (node->count - at - 1) * sizeof(uint64_t));
	node->count--;
}

static bool print_node(JsonPrinter *printer, const JsonNode *node, int depth);

static bool
print_member(JsonPrinter *printer, const JsonNode *node, size_t at, int depth)
{
	const JsonMember *member = member_of(node, at);
	JsonNode	standing;
	SourceBytes key = {NULL, 0};
	char	   *owned = NULL;

	if (member != NULL)
		key = member->key;
	else
	{
		member_in_document(node, at, &key, &standing);
		if (node->is_text && node->is_object)
			(void) mean_key(&key, &owned);
	}
	if (node->is_object)
	{
		capstan_json_print_string(printer->out, (const uint8_t *) key.data, key.length);
		capstan_strbuf_append_str(printer->out, ": ");
		capstan_free(owned);
	}
	return print_node(printer, member != NULL ? &member->node : &standing, depth);
}

static bool
print_node(JsonPrinter *printer, const JsonNode *node, int depth)
{
	if (!node->opened && node->is_text)
	{
		capstan_strbuf_append(printer->out, node->value.data, node->value.length);
		return true;
	}
	if (!node->opened)
		return capstan_json_print(printer, &node->value, depth);
	capstan_strbuf_append_char(printer->out, node->is_object ? '{' : '[');
	for (size_t i = 0; i < node->count; i++)
	{
		if (i > 0)
			capstan_strbuf_append_str(printer->out, ", ");
		if (!print_member(printer, node, i, depth + 1))
			return false;
	}
	capstan_strbuf_append_char(printer->out, node->is_object ? '}' : ']');
	return true;
}

/* ---- paths ---- */

/* A member's name behind the point. */
static bool
read_name(ByteReader *path, StrBuf *name)
{
	capstan_strbuf_reset(name);
	capstan_strbuf_append(name, "", 0);
	if (capstan_bytes_left(path) == 0)
		return false;
	if (*path->pos != '"')
	{
		while (capstan_bytes_left(path) > 0 && *path->pos != '.' && *path->pos != '[')
			capstan_strbuf_append_char(name, (char) capstan_bytes_u8(path));
		return name->length > 0 && name->data[0] != '*';
	}
	capstan_bytes_skip(path, 1);
	while (capstan_bytes_left(path) > 0)
	{
		uint8_t		c = capstan_bytes_u8(path);

		if (c == '"')
			return true;
		if (c != '\\')
			capstan_strbuf_append_char(name, (char) c);
		else if (!capstan_json_text_read_escape(path, name))
			return false;
	}
	return false;
}

static bool
read_number(ByteReader *path, uint64_t *number)
{
	int			ndigits = 0;

	*number = 0;
	while (capstan_bytes_left(path) > 0 && *path->pos >= '0' && *path->pos <= '9' && ndigits < 10)
	{
		*number = *number * 10 + (uint64_t) (capstan_bytes_u8(path) - '0');
		ndigits++;
	}
	return ndigits > 0;
}

/* Behind the bracket: "3]", "last]", "last-2]". */
static bool
read_index(ByteReader *path, PathLeg *leg)
{
	leg->from_end = capstan_bytes_left(path) > 4 && memcmp(path->pos, "last", 4) == 0;
	leg->index = 0;
	if (leg->from_end)
	{
		capstan_bytes_skip(path, 4);
		if (*path->pos == ']')
			return capstan_bytes_u8(path) == ']';
		if (capstan_bytes_u8(path) != '-')
			return false;
	}
	return read_number(path, &leg->index) && capstan_bytes_u8(path) == ']';
}

static bool
read_leg(ByteReader *path, PathLeg *leg)
{
	switch (capstan_bytes_u8(path))
	{
		case '.':
			leg->is_member = true;
			return read_name(path, &leg->name);
		case '[':
			leg->is_member = false;
			return read_index(path, leg);
		default:
			return false;
	}
}

/* ---- differences ---- */

static bool
apply_at(JsonPatch *patch, JsonNode *parent, const PathLeg *leg, uint8_t operation, const JsonValue *value)
{
	JsonMember *member;
	bool		found;
	size_t		at = find_member(parent, leg, &found);

	if (parent->is_object != leg->is_member)
		return does_not_fit(patch);
	switch (operation)
	{
		case DIFF_REPLACE:
			if (!found)
				return does_not_fit(patch);
			member = take_member(parent, at);
			free_node(&member->node);
			memset(&member->node, 0, sizeof(JsonNode));
			member->node.value = *value;
			return true;
		case DIFF_INSERT:
			if (found && leg->is_member)
				return does_not_fit(patch);
			if (!may_move(patch, parent, at))
				return false;
			insert_member(parent, at, leg, value);
			return true;
		default:
			if (!found)
				return does_not_fit(patch);
			if (!may_move(patch, parent, at))
				return false;
			remove_member(parent, at);
			return true;
	}
}

/* Follows the path to the last leg's parent and applies the operation there. */
static bool
apply_one(JsonPatch *patch, JsonNode *root, ByteReader *path, PathLeg *leg, uint8_t operation, const JsonValue *value)
{
	JsonNode   *node = root;

	if (capstan_bytes_u8(path) != '$' || capstan_bytes_left(path) == 0)
		return malformed(patch);
	for (int depth = 0; depth < JSON_DEPTH_MAX; depth++)
	{
		bool		found;
		size_t		at;

		if (!read_leg(path, leg))
			return malformed(patch);
		if (!is_container(node))
			return does_not_fit(patch);
		if (!open_node(patch, node))
			return false;
		if (capstan_bytes_left(path) == 0)
			return apply_at(patch, node, leg, operation, value);
		at = find_member(node, leg, &found);
		if (!found || node->is_object != leg->is_member)
			return does_not_fit(patch);
		node = &take_member(node, at)->node;
	}
	return malformed(patch);
}

static bool
apply_all(JsonPatch *patch, JsonNode *root, ByteReader *diffs)
{
	PathLeg		leg;
	bool		ok = true;

	memset(&leg, 0, sizeof(leg));
	while (ok && capstan_bytes_left(diffs) > 0)
	{
		uint8_t		operation = capstan_bytes_u8(diffs);
		size_t		path_length = (size_t) capstan_bytes_lenenc(diffs);
		const uint8_t *path_bytes = capstan_bytes_take(diffs, path_length);
		ByteReader	path;
		JsonValue	value = {JSON_LITERAL, NULL, 0};

		if (path_bytes != NULL && operation != DIFF_REMOVE)
		{
			size_t		value_length = (size_t) capstan_bytes_lenenc(diffs);

			value.data = capstan_bytes_take(diffs, value_length);
			if (value.data != NULL && value_length > 0)
			{
				value.type = *value.data++;
				value.length = value_length - 1;
			}
			else
				diffs->failed = true;
		}
		if (path_bytes == NULL || diffs->failed || operation > DIFF_REMOVE)
		{
			ok = malformed(patch);
			break;
		}
		path = capstan_bytes_reader(path_bytes, path_length);
		ok = apply_one(patch, root, &path, &leg, operation, &value);
	}
	capstan_strbuf_free(&leg.name);
	return ok;
}

/* The root is freed. */
static bool
apply_and_print(JsonNode *root, size_t document_length, const uint8_t *diffs, size_t diffs_length, StrBuf *out, CapstanError *error)
{
	ByteReader	reader = capstan_bytes_reader(diffs, diffs_length);
	JsonPatch	patch = {document_length + diffs_length, 0, error};
	JsonPrinter printer;
	bool		ok;

	capstan_json_printer(&printer, out, document_length + diffs_length, error);
	ok = apply_all(&patch, root, &reader) && print_node(&printer, root, 0);
	free_node(root);
	return ok;
}

bool
capstan_json_apply_diffs(const uint8_t *document, size_t document_length, const uint8_t *diffs, size_t diffs_length,
						 StrBuf *out, CapstanError *error)
{
	JsonPatch	patch = {0, 0, error};
	JsonNode	root;

	if (diffs_length == 0)
		return capstan_json_to_text(document, document_length, out, error);
	if (document_length == 0)
		return does_not_fit(&patch);
	memset(&root, 0, sizeof(root));
	root.value.type = document[0];
	root.value.data = document + 1;
	root.value.length = document_length - 1;
	return apply_and_print(&root, document_length, diffs, diffs_length, out, error);
}

bool
capstan_json_apply_diffs_to_text(const SourceBytes *document, const SourceBytes *diffs, StrBuf *out, CapstanError *error)
{
	JsonPatch	patch = {0, 0, error};
	SourceBytes value;
	JsonNode	root;

	if (!capstan_json_text_value((const uint8_t *) document->data, document->length, &value))
		return does_not_fit(&patch);
	memset(&root, 0, sizeof(root));
	set_text(&root, &value);
	return apply_and_print(&root, document->length, (const uint8_t *) diffs->data, diffs->length, out, error);
}
