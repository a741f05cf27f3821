// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"slices"

	"github.com/xlb-project/xlb/internal/admin"
	"github.com/xlb-project/xlb/internal/config"
	"github.com/xlb-project/xlb/internal/metrics"
	"github.com/xlb-project/xlb/internal/mtls"
	"github.com/xlb-project/xlb/internal/xds"
)

// Origins implements admin.Source. It looks at no file and waits for no change of the configuration: probes ask for it.
func (n *Node) Origins() []admin.Origin {
	list, server := n.intake.list(), ""
	if n.dynamic != nil && n.dynamic.client != nil {
		status := n.dynamic.client.Refused()
		list, server = append(list, n.dynamic.fromServer(&status)...), status.Server
	}
	for _, h := range n.secrets.store.Held() {
		list = append(list, originOfSecret(&h, server))
	}
	for _, c := range n.secrets.store.Certificates() {
		list = append(list, originOfCertificate(&c))
	}
	slices.SortStableFunc(list, func(a, b admin.Origin) int { return kindOrder(a.Kind) - kindOrder(b.Kind) })
	return list
}

// digestText is the version of a bootstrap: what sha256sum begins with.
func digestText(b *config.Bootstrap) string {
	sum := b.Digest()
	return hex.EncodeToString(sum[:8])
}

// fromServer lists the origins of what the control plane is asked for.
func (d *dynamic) fromServer(status *xds.Status) (list []admin.Origin) {
	for _, k := range everyKind {
		s := &status.Kinds[k]
		if !d.asksServerFor(k) && s.Attempts == 0 {
			continue
		}
		list = append(list, admin.Origin{
			Kind: k.String(), Source: ofServer, From: status.Server, Version: s.Version, Taken: moment(s.LastUpdate), Refused: s.Rejected, Refusal: refusalOfServer(s),
		})
	}
	return list
}

// asksServerFor reports whether the control plane is asked for a kind whatever it has sent.
func (d *dynamic) asksServerFor(k config.Kind) bool {
	from := d.bootstrap.Load().Dynamic
	return slices.Contains(from.Roots(), k) || len(from.Names(k)) > 0
}

// refusalOfServer is nil where all that the server has sent of a kind is in force. A resource stays refused until it is sent again: an incremental server
// may send others meanwhile.
func refusalOfServer(s *xds.KindStatus) *admin.Refusal {
	r := newRefusal(s.FailedVersion, s.FailedAt)
	for i := range s.Resources {
		one := &s.Resources[i]
		if r.At.Before(one.FailedAt) {
			r.At, r.Version = one.FailedAt, bounded(one.FailedVersion)
		}
		fault := one.Fault
		if fault == nil {
			fault = errors.New(one.Error)
		}
		r.add(one.Name, fault)
	}
	r.More += int(s.NotKept)
	if len(r.Problems) == 0 && s.Error != "" {
		r.add("", errors.New(s.Error))
	}
	if len(r.Problems) == 0 {
		return nil
	}
	return &r.Refusal
}

// originOfSecret is that of a secret, which the control plane may send: server is its address.
func originOfSecret(h *mtls.Held, server string) admin.Origin {
	o := admin.Origin{Kind: kindSecret, Source: ofServer, From: server, Name: h.Source.Name, Version: h.Version, Taken: moment(h.Updated), Refused: h.Refused}
	switch {
	case h.Source.File != "":
		o.Source, o.From = ofFile, h.Source.File
	case !h.Source.ADS:
		o.From = "unix:" + h.Source.Socket
	}
	if h.Cause != nil {
		r := newRefusal("", h.FaultAt)
		r.add("", h.Cause)
		o.Refusal = &r.Refusal
	}
	return o
}

func originOfCertificate(c *mtls.Outcome) admin.Origin {
	o := admin.Origin{Kind: kindCertificate, Source: ofFile, From: c.Files, Taken: moment(c.Taken), Refused: c.Refused}
	if c.Fault != nil {
		r := newRefusal("", c.FaultAt)
		r.add("", c.Fault)
		o.Refusal = &r.Refusal
	}
	return o
}

// Origins implements metrics.Source: those of one kind and source together.
func (m measured) Origins() []metrics.Origin {
	all := map[metrics.OriginKey]*metrics.Origin{}
	var list []*metrics.Origin
	for _, o := range m.n.Origins() {
		key := metrics.OriginKey{Kind: o.Kind, Source: o.Source}
		if all[key] == nil {
			all[key] = &metrics.Origin{OriginKey: key, Successful: true, Refused: m.n.refusals(key, &o)}
			list = append(list, all[key])
		}
		all[key].Successful = all[key].Successful && o.Refusal == nil
		if o.Taken != nil && o.Taken.After(all[key].Taken) {
			all[key].Taken = *o.Taken
		}
	}
	out := make([]metrics.Origin, len(list))
	for i := range list {
		out[i] = *list[i]
	}
	return out
}

// refusals counts those of all origins of a kind and source, also of those that have gone. Nothing but a kind of a control plane is one origin.
func (n *Node) refusals(key metrics.OriginKey, o *admin.Origin) uint64 {
	secrets, certificates := n.secrets.store.RefusedFiles()
	switch {
	case key.Kind == kindSecret && key.Source == ofServer:
		return n.secrets.refused.Load()
	case key.Kind == kindSecret:
		return secrets
	case key.Kind == kindCertificate:
		return certificates
	case key.Source == ofServer:
		return o.Refused
	}
	return n.intake.refusals(key.Kind)
}

// bootstrapVersion is a number that differs between bootstraps: the first six bytes of the text's SHA-256, which a float64 holds.
func (n *Node) bootstrapVersion() uint64 {
	t := n.intake.of(n.bootstrapKey())
	sum, err := hex.DecodeString(t.version)
	if err != nil || len(sum) < 8 {
		return 0
	}
	return binary.BigEndian.Uint64(sum) >> 16
}
