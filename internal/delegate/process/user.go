// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Users that no system gives to persons, services or containers: above systemd's ranges (systemd.io/UIDS-GIDS), and below the numbers that are negative for
// those programs which take them for signed ones.
const (
	firstUser uint32 = 1879048192
	lastUser  uint32 = 2147483646
)

// userAttempts is how many users are tried. There are 2^28 of them: a second attempt is a rarity.
const userAttempts = 16

// unusedUser returns a number that no process has as a user or as a group. proc is where procfs is mounted.
func unusedUser(proc string) (uint32, error) {
	used, err := numbersInUse(proc)
	if err != nil {
		return 0, fmt.Errorf("find a user that no process has: %w", err)
	}
	for range userAttempts {
		user := firstUser + rand.Uint32N(lastUser-firstUser+1)
		if !used[user] {
			return user, nil
		}
	}
	return 0, fmt.Errorf("find a user from %d to %d that no process has: %d numbers are in use", firstUser, lastUser, len(used))
}

// numbersInUse are the users and groups of all processes.
func numbersInUse(proc string) (map[uint32]bool, error) {
	statuses, err := filepath.Glob(proc + "/[0-9]*/status")
	if err != nil || len(statuses) == 0 {
		return nil, errors.Join(fmt.Errorf("%s has no processes; mount procfs there", proc), err)
	}
	used := map[uint32]bool{}
	for _, status := range statuses {
		text, err := os.ReadFile(status)
		if err != nil {
			continue // it has ended
		}
		for line := range strings.Lines(string(text)) {
			addNumbers(used, line)
		}
	}
	return used, nil
}

// addNumbers adds those of a line such as "Uid:	0	0	0	0" or "Groups:	4 24 ", of proc_pid_status(5).
func addNumbers(used map[uint32]bool, line string) {
	key, values, _ := strings.Cut(line, ":")
	if key != "Uid" && key != "Gid" && key != "Groups" {
		return
	}
	isBlank := func(r rune) bool { return r == '\t' || r == ' ' || r == '\n' }
	for _, value := range strings.FieldsFunc(values, isBlank) {
		if n, err := strconv.ParseUint(value, 10, 32); err == nil {
			used[uint32(n)] = true
		}
	}
}
