// SPDX-License-Identifier: Apache-2.0

package check

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/heels/kernel"
	"github.com/xlb-project/xlb/internal/heels/pins"
	"github.com/xlb-project/xlb/internal/heels/settings"
	"github.com/xlb-project/xlb/internal/netns"
)

const (
	// lockPatience is how long the lock of a pin directory may be taken: agents hold it for milliseconds, each second.
	lockPatience = 2 * time.Second
	// attachPatience is how long programs may be missing at an interface that was made again: a running agent attaches them when it hears of it, and looks
	// each second besides.
	attachPatience = 2 * pins.RefreshInterval
	checkPoll      = 50 * time.Millisecond
)

// openControl reads what the last agent has written; nil when nothing is pinned.
func openControl(pin string) (*ebpf.Map, *kernel.Control, error) {
	m, err := ebpf.LoadPinnedMap(filepath.Join(pin, kernel.MapControl), &ebpf.LoadPinOptions{ReadOnly: true})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, pins.WithoutPath(err)
	}
	var c kernel.Control
	if err := m.Lookup(uint32(0), &c); err != nil || c.Abi != 0 && c.Abi != kernel.ABI {
		m.Close()
		return nil, nil, errors.New("made by another version of XLB")
	}
	return m, &c, nil
}

// checkAgents looks at who has the pin directory: programs and maps there are one agent's, of one network namespace.
func checkAgents(pin string) Finding {
	const name = "agents"
	m, c, err := openControl(pin)
	if err != nil {
		return Finding{name, Missing, fmt.Sprintf("%s: %v; an agent takes over no other's", pin, err), "detach with the version that made the pins: xlb heels detach --pin " + pin}
	}
	if m == nil {
		return fine(name, "none has left anything in %s", pin)
	}
	defer m.Close()
	holders, err := holdersOf(m)
	if err != nil {
		return Finding{name, Attention, fmt.Sprintf("%s: who has it open cannot be seen: %v", pin, err), "run the check as root"}
	}
	if f := checkForeign(pin, c, holders); f != nil {
		return *f
	}
	switch len(holders) {
	case 0:
		return fine(name, "none runs; what the last one has left is in force")
	case 1:
		return fine(name, "%s runs; a new one takes over from it", holders[0])
	}
	last := holders[len(holders)-1]
	return Finding{
		name, Missing, fmt.Sprintf("%s is used by %s: a pin directory is one agent's, and the one that was started last, %d, has taken over from the others", pin, processNames(holders), last.pid),
		fmt.Sprintf("end all but %s, or give each network namespace a directory of its own with --pin", last),
	}
}

// checkForeign is nil unless programs of the directory are in force in another network namespace.
func checkForeign(pin string, c *kernel.Control, holders []process) *Finding {
	own, err := netns.Cookie()
	if err != nil || c.Abi == 0 || c.Netns == own {
		return nil
	}
	names, err := pins.LinkNames(pin)
	if err != nil {
		return nil
	}
	for _, link := range names {
		_, device, _ := strings.Cut(link, "-")
		if device == "" || !pins.IsAttached(pin, link) {
			continue
		}
		who := "an agent"
		if len(holders) > 0 {
			who = processNames(holders)
		}
		return &Finding{
			"agents", Missing, fmt.Sprintf("%s: %s of another network namespace has programs in force at its interface %s, and a pin directory is one namespace's", pin, who, device),
			"name another directory with --pin, or end that one there: xlb heels detach --pin " + pin,
		}
	}
	return nil
}

// checkLock tries the lock that agents take for moments.
func checkLock(pin string) Finding {
	const name = "lock"
	l, err := pins.OpenLock(pin)
	if errors.Is(err, unix.ENOENT) {
		return fine(name, "%s is not there yet", pin)
	}
	if err != nil {
		return Finding{name, Missing, err.Error(), "run as root, or name another directory with --pin"}
	}
	defer l.Close()
	for end := time.Now().Add(lockPatience); ; time.Sleep(checkPoll) {
		err := l.TryTake()
		if err == nil {
			return fine(name, "free")
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return Finding{name, Missing, fmt.Sprintf("%s cannot be locked: %v", pin, err), "name a directory of another file system with --pin"}
		}
		if time.Now().After(end) {
			break
		}
	}
	who, remedy := "a process that cannot be seen from here", "look for it in other PID namespaces: lslocks"
	if p, ok := holderOf(l); ok {
		who, remedy = p.String(), fmt.Sprintf("wait until it is done; if it hangs, end process %d", p.pid)
	}
	return Finding{name, Missing, fmt.Sprintf("%s is locked by %s for more than %v: an agent that starts waits for that", pin, who, lockPatience), remedy}
}

// checkAttached looks whether what an agent has attached to an interface is still there: an interface that is deleted takes its programs along, and the next of its
// name has none until an agent attaches them.
func checkAttached(c *settings.Config, pin, device string) Finding {
	name := "programs " + device
	m, in, err := openControl(pin)
	if err != nil || m == nil {
		return fine(name, "none is in force yet")
	}
	defer m.Close()
	if own, err := netns.Cookie(); err != nil || in.Netns != own {
		return fine(name, "none is in force yet in this network namespace")
	}
	var gone, never []string
	for end := time.Now().Add(attachPatience); ; time.Sleep(checkPoll) {
		if gone, never = missingPrograms(c, pin, device); len(gone) == 0 || time.Now().After(end) {
			break
		}
	}
	switch {
	case len(gone) > 0:
		return Finding{
			name, Missing, fmt.Sprintf("%s: %s was deleted, or made again, and an interface has programs only when they are attached to it; connections around the balancer break there", strings.Join(gone, ", "), device),
			"start the agent, which attaches them: xlb heels run --pin " + pin,
		}
	case len(never) > 0:
		return Finding{
			name, Attention, fmt.Sprintf("%s: not attached by the agent that is in force, which has another configuration", strings.Join(never, ", ")),
			"start the agent again with this one: interfaces and roles do not change by a reload",
		}
	}
	return fine(name, "all are in force")
}

// missingPrograms are the programs that were attached to an interface that is gone, and those that have never been.
func missingPrograms(c *settings.Config, pin, device string) (gone, never []string) {
	index := uint64(0)
	if d, err := net.InterfaceByName(device); err == nil {
		index = uint64(d.Index)
	}
	for _, at := range pins.Attachments(c) {
		if at.Device != device {
			continue
		}
		_, err := os.Stat(filepath.Join(pin, at.PinName()))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			never = append(never, at.Name)
		case index == 0 || pins.AttachedTo(pin, at.PinName()) != index:
			gone = append(gone, at.Name)
		}
	}
	return gone, never
}
