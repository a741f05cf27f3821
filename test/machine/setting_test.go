// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// harmless is a setting of the whole machine that other namespaces do not have, and that nothing on it feels.
const harmless = "/proc/sys/net/ipv4/inet_peer_threshold"

func TestSettingsComeBackInReverseOrder(t *testing.T) {
	recordsOfTest(t)
	before := inForce(t)
	first, second := changeTo(t, "65001"), changeTo(t, "65002")
	record, err := os.ReadFile(first.record)
	if want := harmless + "\n" + before + "\n"; err != nil || string(record) != want {
		t.Errorf("the record is %q (%v), want %q: the value that the machine had", record, err, want)
	}
	if got := inForce(t); got != "65002" {
		t.Errorf("the setting is %s, want 65002", got)
	}
	if err := first.Restore(); err == nil {
		t.Error("the first change could be restored before the second one")
	}
	for _, s := range []*Setting{second, first} {
		if err := s.Restore(); err != nil {
			t.Error(err)
		}
	}
	if got := inForce(t); got != before {
		t.Errorf("the setting is %s, want %s as before", got, before)
	}
	requireNoRecord(t)
}

func TestChangeThatFailsLeavesNothing(t *testing.T) {
	recordsOfTest(t)
	for _, change := range []struct{ path, value string }{{"/proc/sys/net/ipv4/no_such_setting", "1"}, {harmless, "no number"}} {
		if _, err := Change(change.path, change.value); err == nil {
			t.Errorf("Change(%q, %q) reports no error", change.path, change.value)
		}
	}
	requireNoRecord(t)
	// It would wait for a minute if one of the two held the lock.
	if err := changeTo(t, "65001").Restore(); err != nil {
		t.Error(err)
	}
}

func TestChangePutsBackWhatAKilledProcessHasChanged(t *testing.T) {
	recordsOfTest(t)
	before := inForce(t)
	record := filepath.Join(recordsDirectory(), "1", "settings", "harmless")
	if err := os.MkdirAll(filepath.Dir(record), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(record, []byte(harmless+"\n65001\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := changeTo(t, "65002")
	if got := strings.TrimSpace(string(s.former)); got != "65001" {
		t.Errorf("the former value is %s, want 65001, as it was before a process that did not put it back", got)
	}
	if _, err := os.Stat(record); err == nil {
		t.Error("the record of the killed process is left: it would be put back under a later change")
	}
	s.former = []byte(before)
	if err := s.Restore(); err != nil {
		t.Error(err)
	}
}

func TestSettingsOfAnotherPathAreOneRecord(t *testing.T) {
	recordsOfTest(t)
	const second = "/proc/sys/net/ipv4/inet_peer_minttl"
	first := changeTo(t, "65001")
	other, err := Change(second, "121")
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Restore(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(filepath.Dir(first.record)), "born")); err != nil {
		t.Errorf("the record tells no owner any more, while a setting is changed: %v", err)
	}
	if err := first.Restore(); err != nil {
		t.Error(err)
	}
	requireNoRecord(t)
}

func requireNoRecord(t *testing.T) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(recordsDirectory(), "[0-9]*"))
	if err != nil || len(left) > 0 {
		t.Errorf("records are left: %s (%v)", left, err)
	}
}

// alone keeps other processes of these tests, on whose machine this one also is, from the harmless setting.
func alone(t *testing.T) {
	t.Helper()
	if err := os.MkdirAll("/run/xlb-test", 0o755); err != nil {
		t.Fatal(err)
	}
	lock, err := os.OpenFile("/run/xlb-test/test-of-settings.lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lock.Close() })
}

// recordsOfTest has the records of this test in a directory of its own, also where scripts/isolate runs it.
func recordsOfTest(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("settings of the machine belong to root: run the tests as root")
	}
	alone(t)
	records := t.TempDir()
	t.Setenv(RecordsVariable, records)
	t.Setenv(RunVariable, "")
}

func changeTo(t *testing.T, value string) *Setting {
	t.Helper()
	s, err := Change(harmless, value)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// inForce is the value of the harmless setting.
func inForce(t *testing.T) string {
	t.Helper()
	file, err := open(harmless)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	text, err := read(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}
