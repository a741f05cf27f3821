// SPDX-License-Identifier: Apache-2.0

// Package process runs a program confined: as a user that no other process has, without privileges, in a cgroup with bounds, and with its output as its only
// way to the daemon. It is for an Envoy that the daemon starts beside itself, which is reached by others and may be taken over by them; it knows nothing of
// Envoy but how it prints its version.
//
// What a program is given is set before its first instruction, by the thread that starts it or by the kernel's fork, and never afterwards: there is no moment
// in which it has more. The parts:
//
//   - user: a number above all that a system gives to users, as its user and its only group. It may read what all may read, and write to nothing of the host.
//   - privileges: no capabilities, and none by executing a file (PR_SET_NO_NEW_PRIVS); not the daemon's keyring, environment, or open files.
//   - resources: memory, processors and the number of tasks, by cgroups of version 2, or of version 1 where version 2 lacks the controllers.
//   - life: it dies with the daemon (PR_SET_PDEATHSIG), and its descendants with it when the daemon lives (cgroup.kill, which they cannot leave).
//
// It is no sandbox for system calls, files or networks: the program sees the host's, with the rights of a user that owns nothing. Its hard limits
// (getrlimit(2)) are the daemon's, so that it may raise what it begins with up to those.
//
// The daemon needs CAP_SETUID, CAP_SETGID and CAP_CHOWN, and to be root: it owns the cgroups. CAP_KILL is for the signal of its death, which the kernel sends in
// its name to a process of another user. CAP_DAC_OVERRIDE and CAP_SYS_RESOURCE are not needed.
package process
