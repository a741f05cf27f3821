// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/binary"
	"encoding/hex"
	"slices"

	"github.com/xlb-project/xlb/internal/admin"
	"github.com/xlb-project/xlb/internal/config"
	"github.com/xlb-project/xlb/internal/metrics"
	"github.com/xlb-project/xlb/internal/source/intake"
)

// Origins implements admin.Source. It looks at no file and waits for no change of the configuration: probes ask for it.
func (n *Node) Origins() []admin.Origin {
	list, server := n.intake.List(), ""
	if n.dynamic != nil && n.dynamic.client != nil {
		status := n.dynamic.client.Refused()
		list, server = append(list, intake.OfServer(&status, n.dynamic.asksServerFor)...), status.Server
	}
	for _, h := range n.secrets.Store().Held() {
		list = append(list, intake.OfSecret(&h, server))
	}
	for _, c := range n.secrets.Store().Certificates() {
		list = append(list, intake.OfCertificate(&c))
	}
	intake.Sort(list)
	return list
}

// asksServerFor reports whether the control plane is asked for a kind whatever it has sent.
func (d *dynamic) asksServerFor(k config.Kind) bool {
	from := d.bootstrap.Load().Dynamic
	return slices.Contains(from.Roots(), k) || len(from.Names(k)) > 0
}

// Origins implements metrics.Source.
func (m measured) Origins() []metrics.Origin {
	secrets, certificates := m.n.secrets.Store().RefusedFiles()
	return m.n.intake.Sum(m.n.Origins(), intake.Refused{Served: m.n.secrets.Refused(), SecretFiles: secrets, CertificateFiles: certificates})
}

// digestText is the version of a bootstrap: what sha256sum begins with.
func digestText(b *config.Bootstrap) string {
	sum := b.Digest()
	return hex.EncodeToString(sum[:8])
}

// bootstrapVersion is a number that differs between bootstraps: the first six bytes of the text's SHA-256, which a float64 holds.
func (n *Node) bootstrapVersion() uint64 {
	sum, err := hex.DecodeString(n.intake.Of(n.bootstrapKey()).Version)
	if err != nil || len(sum) < 8 {
		return 0
	}
	return binary.BigEndian.Uint64(sum) >> 16
}
