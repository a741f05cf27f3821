// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"context"
	"errors"

	"github.com/xlb-project/xlb/bench/peers"
)

// redirect has the hosts of the lab do it until unredirect.
func (b *Bed) redirect(ctx context.Context, m peers.Mesh) error {
	if len(m.Inbound) == 0 {
		return nil
	}
	for _, r := range m.Redirections(b.Lab.EndpointAddress().IsLoopback()) {
		if err := b.nftOn(ctx, r.Host, r.Text()); err != nil {
			return err
		}
		b.redirected = append(b.redirected, r.Host)
	}
	return nil
}

// unredirect takes the rules away. It comes after the sidecars have ended, so that the kernel has seen the ends of their connections.
func (b *Bed) unredirect(ctx context.Context) error {
	var errs []error
	for _, host := range b.redirected {
		errs = append(errs, b.nftOn(context.WithoutCancel(ctx), host, "delete table ip "+peers.MeshTable+"\n"))
	}
	b.redirected = nil
	return errors.Join(errs...)
}
