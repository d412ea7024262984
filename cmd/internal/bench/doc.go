// Package bench measures the program with the program: real servers on a
// scratch directory, real clients over loopback TCP, everything in one process
// and one run, so that the figures can be compared with each other.
//
// Absolute figures say as much about the machine as about Muster. What is worth
// looking at are ratios of one run: durable appends against a bare echo through
// the same server, one sync mode against another, a replay against a bare
// consumer of the same stream.
//
// It owns nothing that outlives a run. A run that fails reports the error and
// no figures.
package bench
