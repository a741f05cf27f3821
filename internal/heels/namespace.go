// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"fmt"
	"strings"

	"github.com/xlb-project/xlb/internal/heels/pins"
	"github.com/xlb-project/xlb/internal/netns"
)

// checkNamespace refuses pins whose programs are in force in another network namespace: interfaces have the same numbers there, and whatever is written for this
// one would be wrong for those. What a namespace that is gone has left may be taken over.
func (k *Kernel) checkNamespace() error {
	own, err := netns.Cookie()
	if err != nil {
		return err
	}
	device, err := k.attachedElsewhere(own)
	if err != nil || device == "" {
		return err
	}
	return &pins.Error{Path: k.pin, Err: fmt.Errorf("an agent of another network namespace has programs in force at %s there; name another directory with --pin, or end that one: xlb heels detach --pin %s", device, k.pin)}
}

// attachedElsewhere names an interface at which programs are attached in another network namespace than the one of that cookie; "" if they are nowhere else.
func (k *Kernel) attachedElsewhere(netns uint64) (device string, err error) {
	c, err := k.control()
	if err != nil || c.Abi == 0 || c.Netns == netns {
		return "", err
	}
	names, err := pins.LinkNames(k.pin)
	if err != nil {
		return "", err
	}
	for _, name := range names {
		if _, device, _ := strings.Cut(name, "-"); device != "" && pins.IsAttached(k.pin, name) {
			return device, nil
		}
	}
	return "", nil
}
