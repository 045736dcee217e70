/*-------------------------------------------------------------------------
 *
 * view_rows.c
 *	  What the functions behind the views share.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_authid.h"
#include "miscadmin.h"
#include "refuse.h"
#include "utils/acl.h"
#include "view_rows.h"

/*
 * view_shows
 *		Whether the user may see all of what belongs to that role.
 */
bool
view_shows(Oid userid)
{
	return has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS) ||
		(OidIsValid(userid) && has_privs_of_role(GetUserId(), userid));
}

/*
 * view_needs_preload
 *		Raises 55000 where there is no shared memory of Sift's.
 */
void
view_needs_preload(bool preloaded)
{
	if (!preloaded)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("sift must be loaded via \"shared_preload_libraries\""),
				 errdetail("What is known of other backends is in shared memory, which is made when the server starts."),
				 errhint("Add \"sift\" to \"shared_preload_libraries\" and restart the server.")));
}

/*
 * view_answer
 *		Have a view's rows listed; nothing is refused meanwhile, since the views
 *		are what one looks at when the limit is reached.
 */
void
view_answer(void (*list) (ReturnSetInfo *result), FunctionCallInfo fcinfo)
{
	bool		paused = refuse_pause(true);

	PG_TRY();
	{
		InitMaterializedSRF(fcinfo, 0);
		list((ReturnSetInfo *) fcinfo->resultinfo);
	}
	PG_FINALLY();
	{
		refuse_pause(paused);
	}
	PG_END_TRY();
}
