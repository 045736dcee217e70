/*-------------------------------------------------------------------------
 *
 * refuse.h
 *	  Whether a request of the server program may be refused.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIFT_REFUSE_H
#define SIFT_REFUSE_H

/* What is refused. */
typedef enum RefusedFor
{
	FOR_MEMORY,					/* memory of the server program */
	FOR_SEGMENT					/* a segment of shared memory */
} RefusedFor;

extern void refuse_start(void);
extern bool refuse_within_float(Size bytes);
extern bool refuse_serves_client(void);
extern bool refuse_is_for_server(void);
extern bool refuse_is_safe(Size bytes, RefusedFor purpose);
extern void refuse_note(void);
extern void refuse_at_top_level(void);
extern bool refuse_pause(bool pause);

#endif							/* SIFT_REFUSE_H */
