// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/xlb-project/xlb/bench/cases"
	"github.com/xlb-project/xlb/bench/peers"
	"github.com/xlb-project/xlb/bench/queue"
)

// accounts takes what the stations have seen; nil where the endpoints are others.
func (b *Bed) accounts(ctx context.Context, l cases.Load) ([]queue.Account, error) {
	if l.Case != cases.Least {
		return nil, nil
	}
	list := make([]queue.Account, len(b.site.Endpoints))
	for i, endpoint := range b.site.Endpoints {
		text, err := b.get(ctx, "http://"+endpoint.String()+queue.AccountPath)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal([]byte(text), &list[i]); err != nil {
			return nil, fmt.Errorf("account of %s: %w", peers.EndpointName(i), err)
		}
	}
	return list, nil
}
