// SPDX-License-Identifier: Apache-2.0

package logging

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func TestLevelsHaveEnvoysNames(t *testing.T) {
	for name, shown := range map[string]string{
		"trace": "debug", "debug": "debug", "info": "info", "warning": "warning", "warn": "warning", "error": "error", "critical": "error", "off": "off",
	} {
		level, err := Level(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := Name(level); got != shown {
			t.Errorf("%s: shown as %s, want %s", name, got, shown)
		}
	}
	for _, name := range []string{"", "DEBUG", "verbose", "INFO+1", "4"} {
		if _, err := Level(name); err == nil || !strings.Contains(err.Error(), "use one of debug, trace, info, warning, warn, error, critical, off") {
			t.Errorf("%q: got %v, want a refusal that names the levels", name, err)
		}
	}
	if got := Name(slog.LevelDebug - 4); got != "debug" {
		t.Errorf("a level below all: got %s", got)
	}
}

// list is an error that cannot be compared.
type list []int

func (l list) Error() string { return fmt.Sprint([]int(l)) }

func TestLinesLeaveOutWhatIsZero(t *testing.T) {
	var b strings.Builder
	log := slog.New(NewHandler(&b, slog.LevelInfo))
	log.Info("said", "suppressed", NonZero(0), "listeners", 0, "cgroup", NonZero(""), "slot", NonZero(uint32(3)), "why", NonZero("x"), "err", error(list{1}))
	if got, want := b.String(), " level=INFO msg=said listeners=0 slot=3 why=x err=[1]\n"; !strings.HasSuffix(got, want) {
		t.Errorf("got %q, want %q at its end", got, want)
	}
}
