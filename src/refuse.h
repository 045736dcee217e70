/*-------------------------------------------------------------------------
 *
 * refuse.h
 *	  Whether a request of the server program may be refused.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIFT_REFUSE_H
#define SIFT_REFUSE_H

extern void refuse_start(void);
extern bool refuse_within_float(Size bytes);
extern bool refuse_serves_client(void);
extern bool refuse_is_safe(Size bytes);
extern void refuse_note(void);
extern void refuse_at_top_level(void);
extern bool refuse_pause(bool pause);

#endif							/* SIFT_REFUSE_H */
