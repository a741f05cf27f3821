// SPDX-License-Identifier: Apache-2.0

package source

import (
	"slices"

	"github.com/xlb-project/xlb/internal/admin"
	"github.com/xlb-project/xlb/internal/config"
	"github.com/xlb-project/xlb/internal/metrics"
	"github.com/xlb-project/xlb/internal/source/intake"
)

// Origins lists where the configuration comes from (admin.Source). It looks at no file and waits for no change of the configuration: probes call it.
func (s *Source) Origins() []admin.Origin {
	list, server := s.intake.List(), ""
	if s.dynamic != nil && s.dynamic.client != nil {
		status := s.dynamic.client.Refused()
		list, server = append(list, intake.OfServer(&status, s.dynamic.asksServerFor)...), status.Server
	}
	for _, h := range s.secrets.Store().Held() {
		list = append(list, intake.OfSecret(&h, server))
	}
	for _, c := range s.secrets.Store().Certificates() {
		list = append(list, intake.OfCertificate(&c))
	}
	intake.Sort(list)
	return list
}

// asksServerFor reports whether the daemon asks the control plane for a kind whatever it has sent.
func (d *dynamic) asksServerFor(k config.Kind) bool {
	from := d.bootstrap.Load().Dynamic
	return slices.Contains(from.Roots(), k) || len(from.Names(k)) > 0
}

// OriginsByKind are the origins for the metrics, those of one kind and source together (metrics.Source).
func (s *Source) OriginsByKind() []metrics.Origin {
	origins := s.Origins() // before the counts: what is refused meanwhile is counted rather than shown
	secrets, certificates := s.secrets.Store().RefusedFiles()
	return s.intake.Sum(origins, intake.Refused{Served: s.secrets.Refused(), SecretFiles: secrets, CertificateFiles: certificates})
}

// DynamicStats returns statistics of dynamic resources by their names, but for what the kernel was written; nil: everything is in the file.
func (s *Source) DynamicStats() map[string]uint64 {
	if s.dynamic == nil {
		return nil
	}
	return s.dynamic.stats()
}
