/* Data files are mapped, and one that somebody cuts while it is read leaves pages behind with nothing in them: the
 * processor's exception for that, SIGBUS, would end the program without a word. */
#ifndef LACONIC_CLI_CUT_FILE_H
#define LACONIC_CLI_CUT_FILE_H

/* From now on SIGBUS in a mapped file ends the process with a line that names file and offset, and with status 1: a
 * file that was cut, or one that the disk, or the server that it is on, no longer gives. Nothing is saved: what a
 * worker was doing cannot be gone on with. */
void lac_watch_cut_files(void);

#endif
