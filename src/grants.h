/*-------------------------------------------------------------------------
 *
 * grants.h
 *	  What a process may charge without asking the others.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIFT_GRANTS_H
#define SIFT_GRANTS_H

#include "slots.h"

/* What a process draws at a time, bytes. */
#define GRANT_SIZE				((int64) 1024 * 1024)

typedef enum GrantResult
{
	GRANTED,
	OVER_SESSION_LIMIT,			/* limit_bytes of the account */
	OVER_TOTAL_LIMIT			/* sift.total_memory_limit */
} GrantResult;

/* Where charged_bytes of this process may move without a call; bytes. */
typedef struct GrantWindow
{
	int64		top;			/* more than that is not granted */
	int64		fits;			/* the same; 0 while a limit is passed */
	int64		bottom;			/* with less some should go back */
	int64		highest;		/* most that "top" was since the end of the last
								 * transaction; see free_heap_publish() */
	int64		within_total;	/* what the session held when the total was
								 * within its limit last */
	bool		limited;		/* there is any limit */
	bool		watched;		/* grants_on_growth() is called */
} GrantWindow;

extern GrantWindow grant_window;

extern void grants_attach(void);
extern GrantResult grants_draw(Size bytes);
extern void grants_cover(void);
extern void grants_give_back(int64 spare);
extern void grants_set_total_limit(int limit_mb);
extern int64 grants_total_limit(void);
extern void grants_reset_peak(void);
extern int64 grants_total_held(void);
extern int64 grants_total_room(void);
extern void grants_publish_free_heap(int64 bytes);
extern GrantResult grants_take_beside(Size bytes, bool force);
extern void grants_release(SiftSession *session, Size bytes);
extern void grants_take_total(int64 bytes);

/*
 * grants_session_held
 *		Bytes that the session holds, its workers with it, of which what they
 *		have drawn counts.
 */
static inline int64
grants_session_held(void)
{
	return (int64) pg_atomic_read_u64(&my_session->drawn) -
		grant_window.top + my_account->charged_bytes;
}

/*
 * Called when this process is about to draw more, or has; anywhere, so it must
 * not raise.
 */
extern void (*grants_on_growth) (void);

/* Called at the end of the process, while it has its slot. */
extern void (*grants_before_detach) (void);

#endif							/* SIFT_GRANTS_H */
