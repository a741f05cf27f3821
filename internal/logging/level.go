// SPDX-License-Identifier: Apache-2.0

package logging

import (
	"fmt"
	"log/slog"
	"strings"
)

// off is above all levels that something is logged at.
const off = slog.Level(100)

// levels by their names, the lowest first: those of Envoy (spdlog), of which XLB has four and "off", and "warn", the name that "xlb run" has for warning.
// The first name of a level is the one that Envoy shows.
var levels = []struct {
	name  string
	level slog.Level
}{
	{"debug", slog.LevelDebug},
	{"trace", slog.LevelDebug},
	{"info", slog.LevelInfo},
	{"warning", slog.LevelWarn},
	{"warn", slog.LevelWarn},
	{"error", slog.LevelError},
	{"critical", slog.LevelError},
	{"off", off},
}

// Level is the level of a name, in Envoy's spelling, which is lower case. The error names those that there are.
func Level(name string) (slog.Level, error) {
	names := make([]string, 0, len(levels))
	for _, l := range levels {
		if l.name == name {
			return l.level, nil
		}
		names = append(names, l.name)
	}
	return 0, fmt.Errorf("%q is no level; use one of %s", name, strings.Join(names, ", "))
}

// Name is Envoy's name of a level that Level returned, or of the next lower one.
func Name(level slog.Level) string {
	name := levels[0].name
	for i, l := range levels {
		if l.level > level {
			break
		}
		if i == 0 || l.level != levels[i-1].level {
			name = l.name
		}
	}
	return name
}
