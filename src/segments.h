/*-------------------------------------------------------------------------
 *
 * segments.h
 *	  Dynamic shared memory that a session makes.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIFT_SEGMENTS_H
#define SIFT_SEGMENTS_H

extern void segments_request(void);
extern void segments_startup(void);
extern void segments_start(void);
extern bool segments_are_accounted(void);

#endif							/* SIFT_SEGMENTS_H */
