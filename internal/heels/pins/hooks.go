// SPDX-License-Identifier: Apache-2.0

package pins

import (
	"strings"
	"time"

	"github.com/cilium/ebpf"

	"github.com/xlb-project/xlb/internal/heels/settings"
)

// RefreshInterval is how often a running agent looks at what it has attached, besides when it hears of an interface.
const RefreshInterval = time.Second

// Attachment is a program, and where it hooks.
type Attachment struct {
	// Name is the program's, without the prefix that all have.
	Name string
	// hook is that of a cgroup, or of an interface.
	hook ebpf.AttachType
	// Device is the interface's name, "" for the cgroup.
	Device string
}

// Attachments are in the order in which they must come into force: what finishes a connection before what begins one.
func Attachments(c *settings.Config) []Attachment {
	var list []Attachment
	for _, device := range c.Interfaces {
		if c.Client != nil {
			list = append(list,
				Attachment{"client_egress", ebpf.AttachTCXEgress, device},
				Attachment{"client_ingress", ebpf.AttachTCXIngress, device})
		}
		if c.Server != nil {
			list = append(list, Attachment{"server_egress", ebpf.AttachTCXEgress, device})
		}
	}
	if c.Confirms() {
		list = append(list,
			Attachment{"server_peername4", ebpf.AttachCgroupInet4GetPeername, ""},
			Attachment{"server_peername6", ebpf.AttachCgroupInet6GetPeername, ""})
	}
	if c.Server != nil {
		list = append(list, Attachment{"server_sockops", ebpf.AttachCGroupSockOps, ""})
		for _, device := range c.Interfaces {
			list = append(list, Attachment{"server_ingress", ebpf.AttachTCXIngress, device})
		}
	}
	if c.Client != nil {
		list = append(list, Attachment{"client_sockops", ebpf.AttachCGroupSockOps, ""})
	}
	return list
}

// finishMark parts, in the name of a link's pin, a program that finishes what an agent before has begun from its cgroup's number.
const finishMark = "@"

// finisher is the name of the program that finishes, in another cgroup, what this one has begun; "" for that of an interface.
func (a *Attachment) finisher() string {
	if role, ok := strings.CutSuffix(a.Name, "_sockops"); ok {
		return role + "_finish"
	}
	if a.Device == "" {
		return a.Name
	}
	return ""
}

// PinName is where the link is pinned. The hyphen is in no program's name, so no interface's name can be mistaken.
func (a *Attachment) PinName() string {
	if a.Device == "" {
		return LinkPrefix + a.Name
	}
	return LinkPrefix + a.Name + "-" + a.Device
}
