// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"log/slog"
	"os"
	"testing"

	"github.com/xlb-project/xlb/test/await"
)

func TestMountsAreReported(t *testing.T) {
	changed, stop, err := newMountWatch(slog.New(slog.NewTextHandler(os.Stderr, nil)))
	must(t, err)
	defer stop()
	f := newFolder(t)
	await.Next(t, changed, "a report of the start")
	for range 100 {
		f.mount("/proc/self/ns/net", "pod")
		await.Next(t, changed, "a report of a mount")
		f.remove("pod")
		await.Next(t, changed, "a report of an unmount")
	}
}

func TestAMountTableThatDoesNotChangeIsNotReported(t *testing.T) {
	changed, stop, err := newMountWatch(slog.New(slog.NewTextHandler(os.Stderr, nil)))
	must(t, err)
	defer stop()
	reports := 0
	for range 10000 {
		select {
		case <-changed:
			reports++
		default:
			// The watch runs meanwhile, if it has something to do.
			_, err := os.Stat(mountTable)
			must(t, err)
		}
	}
	// Those of the start, and some of what is mounted outside where the test is not alone in its mount namespace.
	if reports > 100 {
		t.Errorf("%d reports", reports)
	}
}

func TestAMountWatchThatIsNotReadStops(t *testing.T) {
	changed, stop, err := newMountWatch(slog.New(slog.NewTextHandler(os.Stderr, nil)))
	must(t, err)
	await.Next(t, changed, "a report of the start")
	f := newFolder(t)
	for _, name := range []string{"a", "b", "c"} {
		f.mount("/proc/self/ns/net", name)
	}
	await.Quiet(t, func() string {
		if len(changed) == 0 {
			return "no report waits"
		}
		return ""
	})
	stop()
	<-changed
	select {
	case <-changed:
		t.Error("a second report waits")
	default:
	}
}

func TestAMountWatchThatIsStoppedIsSilent(t *testing.T) {
	var log syncBuffer
	changed, stop, err := newMountWatch(slog.New(slog.NewTextHandler(&log, nil)))
	must(t, err)
	await.Next(t, changed, "a report of the start")
	stop()
	stop()
	// There may be a second one of the start.
	select {
	case <-changed:
	default:
	}
	f := newFolder(t)
	f.mount("/proc/self/ns/net", "pod")
	select {
	case <-changed:
		t.Error("a mount is reported")
	default:
	}
	if log.String() != "" {
		t.Errorf("logged: %s", log.String())
	}
}
