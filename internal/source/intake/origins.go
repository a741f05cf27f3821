// SPDX-License-Identifier: Apache-2.0

package intake

import (
	"errors"
	"slices"

	"github.com/xlb-project/xlb/internal/admin"
	"github.com/xlb-project/xlb/internal/config"
	"github.com/xlb-project/xlb/internal/metrics"
	"github.com/xlb-project/xlb/internal/mtls"
	"github.com/xlb-project/xlb/internal/xds"
)

// OfServer lists the origins of a control plane: the kinds that the daemon asks for, and those that it has asked for.
func OfServer(status *xds.Status, asked func(config.Kind) bool) (list []admin.Origin) {
	for _, k := range everyKind {
		s := &status.Kinds[k]
		if !asked(k) && s.Attempts == 0 {
			continue
		}
		list = append(list, admin.Origin{
			Kind: k.String(), Source: ofServer, From: status.Server, Version: s.Version, Taken: moment(s.LastUpdate), Refused: s.Rejected, Refusal: refusalOfServer(s),
		})
	}
	return list
}

// refusalOfServer is nil where all that the server has sent of a kind is in force. A resource stays refused until it is sent again: an incremental server
// may send others meanwhile.
func refusalOfServer(s *xds.KindStatus) *admin.Refusal {
	r := NewRefusal(s.FailedVersion, s.FailedAt)
	for i := range s.Resources {
		one := &s.Resources[i]
		if r.At.Before(one.FailedAt) {
			r.At, r.Version = one.FailedAt, bounded(one.FailedVersion)
		}
		fault := one.Fault
		if fault == nil {
			fault = errors.New(one.Error)
		}
		r.Add(one.Name, fault)
	}
	r.More += int(s.NotKept)
	if len(r.Problems) == 0 && s.Error != "" {
		r.Add("", errors.New(s.Error))
	}
	if len(r.Problems) == 0 {
		return nil
	}
	return &r.Refusal
}

// OfSecret is the origin of a secret, which the control plane may send: server is its address.
func OfSecret(h *mtls.Held, server string) admin.Origin {
	o := admin.Origin{Kind: kindSecret, Source: ofServer, From: server, Name: h.Source.Name, Version: h.Version, Taken: moment(h.Updated), Refused: h.Refused}
	switch {
	case h.Source.File != "":
		o.Source, o.From = ofFile, h.Source.File
	case !h.Source.ADS:
		o.From = "unix:" + h.Source.Socket
	}
	if h.Cause != nil {
		r := NewRefusal("", h.FaultAt)
		r.Add("", h.Cause)
		o.Refusal = &r.Refusal
	}
	return o
}

// OfCertificate is the origin of a certificate and its key, or of an authority, in files.
func OfCertificate(c *mtls.Outcome) admin.Origin {
	o := admin.Origin{Kind: kindCertificate, Source: ofFile, From: c.Files, Taken: moment(c.Taken), Refused: c.Refused}
	if c.Fault != nil {
		r := NewRefusal("", c.FaultAt)
		r.Add("", c.Fault)
		o.Refusal = &r.Refusal
	}
	return o
}

// Sort sorts origins by their kinds, and leaves those of one kind in their order.
func Sort(list []admin.Origin) {
	slices.SortStableFunc(list, func(a, b admin.Origin) int { return kindOrder(a.Kind) - kindOrder(b.Kind) })
}

// Refused counts what was refused of secrets and certificates since the start: of secrets that servers sent, and of files. It is no matter whether there
// still is an origin that it came from.
type Refused struct{ Served, SecretFiles, CertificateFiles uint64 }

// Sum is what the metrics show of a list of origins: those of one kind and source together.
func (in *Intake) Sum(origins []admin.Origin, refused Refused) []metrics.Origin {
	list, counted := make([]metrics.Origin, len(origins)), map[metrics.OriginKey]bool{}
	for i := range origins {
		o, key := &origins[i], metrics.OriginKey{Kind: origins[i].Kind, Source: origins[i].Source}
		list[i] = metrics.Origin{OriginKey: key, Successful: o.Refusal == nil}
		if o.Taken != nil {
			list[i].Taken = *o.Taken
		}
		// What was refused is counted of all of them together.
		if !counted[key] {
			list[i].Refused, counted[key] = in.refusals(key, o, refused), true
		}
	}
	return metrics.JoinOrigins(list)
}

// refusals counts those of all origins of a kind and source, also of those that have gone. Of a control plane each kind is one origin.
func (in *Intake) refusals(key metrics.OriginKey, o *admin.Origin, refused Refused) uint64 {
	switch {
	case key.Kind == kindSecret && key.Source == ofServer:
		return refused.Served
	case key.Kind == kindSecret:
		return refused.SecretFiles
	case key.Kind == kindCertificate:
		return refused.CertificateFiles
	case key.Source == ofServer:
		return o.Refused
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.refused[key.Kind]
}
