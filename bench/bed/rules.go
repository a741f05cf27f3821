// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/xlb-project/xlb/bench/cases"
	"github.com/xlb-project/xlb/bench/lab"
	"github.com/xlb-project/xlb/bench/peers"
)

// stageRules gives the peer its unrelated services.
func (b *Bed) stageRules(ctx context.Context, p peers.Peer, l cases.Load) (s staged, err error) {
	s.peer = p
	b.site.Unrelated, b.site.Clusters = peers.UnrelatedServices(l.Rules)
	if !p.IsFilter() {
		return s, nil
	}
	b.site.Front = []netip.AddrPort{peers.ServiceAddress}
	text := peers.FilterRules(b.site.Endpoints, l.Rules)
	if p.Name == peers.NftMap {
		text = peers.FilterMap(b.site.Endpoints, l.Rules)
	}
	if err := b.nft(ctx, text); err != nil {
		return s, err
	}
	s.undo = func() error { return b.nft(context.WithoutCancel(ctx), "delete table ip "+peers.FilterTable+"\n") }
	return s, nil
}

// nft has the packet filter of the clients' host read a file.
func (b *Bed) nft(ctx context.Context, text string) error { return b.nftOn(ctx, lab.ClientHost, text) }

func (b *Bed) nftOn(ctx context.Context, host lab.Host, text string) error {
	path, err := b.tools.Find("nft")
	if err != nil {
		return err
	}
	file := filepath.Join(b.site.Dir, "rules.nft")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return err
	}
	running, err := b.Lab.Start(lab.Command{Name: "nft", Path: path, Args: []string{"-f", file}, Role: lab.Balancer, Host: host})
	if err != nil {
		return err
	}
	_, err = running.Wait(ctx)
	return err
}
