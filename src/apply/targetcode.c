/*
 * targetcode.c
 *		Does writing a target run code of its users?
 *
 * Triggers and rules that fire for us, and functions in constraints and indexes.  Such a table is written by statements, and what was
 * gathered for others is written before it (insertbatch.c).
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/transam.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "nodes/execnodes.h"
#include "nodes/nodeFuncs.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/typcache.h"

#include "apply/internal.h"

bool
apply_fires(Relation relation)
{
	const TriggerDesc *triggers = relation->trigdesc;

	if (relation->rd_rules != NULL)
		return true;
	for (int i = 0; triggers != NULL && i < triggers->numtriggers; i++)
		if (triggers->triggers[i].tgenabled == TRIGGER_FIRES_ALWAYS || triggers->triggers[i].tgenabled == TRIGGER_FIRES_ON_REPLICA)
			return true;
	return false;
}

static bool
is_not_built_in(Oid function, void *arg)
{
	return function >= FirstNormalObjectId;
}

static bool
calls_function(Node *node, void *arg)
{
	return node != NULL && (check_functions_in_node(node, is_not_built_in, arg) || expression_tree_walker(node, calls_function, arg));
}

static bool
domain_calls_function(Oid type)
{
	/* the reference lives as long as its context, which lets it go */
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "capstan domain", ALLOCSET_SMALL_SIZES);
	DomainConstraintRef *domain = MemoryContextAlloc(context, sizeof(DomainConstraintRef));
	ListCell   *cell;
	bool		result = false;

	InitDomainConstraintRef(type, domain, context, false);
	foreach(cell, domain->constraints)
		result = result || calls_function((Node *) lfirst_node(DomainConstraintState, cell)->check_expr, NULL);
	MemoryContextDelete(context);
	return result;
}

static bool
index_calls_function(Oid oid)
{
	Relation	index = index_open(oid, AccessShareLock);
	bool		result = calls_function((Node *) RelationGetIndexExpressions(index), NULL) ||
		calls_function((Node *) RelationGetIndexPredicate(index), NULL);

	index_close(index, AccessShareLock);
	return result;
}

/*
 * Does making a row call functions that are not Postgres' own: in CHECK constraints, of the table or of domains, and in indexes?  What they do
 * is not known; some look at other tables, which must have got the rows that came before.
 */
static bool
calls_functions(Relation relation)
{
	TupleDesc	desc = RelationGetDescr(relation);
	List	   *indexes = RelationGetIndexList(relation);
	ListCell   *cell;
	bool		result = false;

	for (int i = 0; desc->constr != NULL && i < desc->constr->num_check && !result; i++)
		result = calls_function(stringToNode(desc->constr->check[i].ccbin), NULL);
	for (int i = 0; i < desc->natts && !result; i++)
	{
		Form_pg_attribute attribute = TupleDescAttr(desc, i);

		result = !attribute->attisdropped && get_typtype(attribute->atttypid) == TYPTYPE_DOMAIN && domain_calls_function(attribute->atttypid);
	}
	foreach(cell, indexes)
		result = result || index_calls_function(lfirst_oid(cell));
	list_free(indexes);
	return result;
}

bool
apply_runs_code(Relation relation)
{
	return relation->rd_rel->relkind != RELKIND_RELATION || relation->rd_rel->relhassubclass || apply_fires(relation) || calls_functions(relation);
}
