// SPDX-License-Identifier: Apache-2.0

package status

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/internal/admin"
	"github.com/xlb-project/xlb/internal/metrics"
	"github.com/xlb-project/xlb/internal/quota"
	"github.com/xlb-project/xlb/internal/workload"
)

func TestRowsOfQuotasNameWhoHasMost(t *testing.T) {
	names := map[workload.ID]string{0: "host", 3: "shop/web"}
	for _, tt := range []struct {
		name string
		by   map[workload.ID]quota.Use
		want *admin.QuotaUser
	}{
		{"no account has any", map[workload.ID]quota.Use{0: {}, 3: {Refused: 1}}, nil},
		{"one has most", map[workload.ID]quota.Use{0: {Taken: 4}, 3: {Taken: 5, Refused: 2}}, &admin.QuotaUser{ID: 3, Name: "shop/web", Taken: 5, Refused: 2}},
		{"two have as many: the first of them", map[workload.ID]quota.Use{3: {Taken: 5}, 0: {Taken: 5}}, &admin.QuotaUser{Name: "host", Taken: 5}},
		{"one that has left", map[workload.ID]quota.Use{9: {Taken: 1}}, &admin.QuotaUser{ID: 9, Taken: 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			u := quota.Usage[workload.ID]{Size: 16, Taken: 10, Refused: 3, By: tt.by}
			want := admin.Quota{Of: "isocks", Size: 16, Taken: 10, Refused: 3, Most: tt.want}
			if diff := cmp.Diff(want, quotaRow("isocks", &u, names)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Several network namespaces of one pod have one account: it is shown with each, and counted once.
func TestUsesAreThoseOfTheAccount(t *testing.T) {
	// The first of the account has left.
	all := fixed{{State: workload.Served}, {ID: 8, Account: 7, Inode: 18, State: workload.Served}, {ID: 9, Account: 7, Inode: 19, State: workload.Served}}
	usage := quota.Usage[workload.ID]{Size: 16, Taken: 4, Refused: 2, By: map[workload.ID]quota.Use{7: {Taken: 4, Refused: 2}}}
	s := &Status{cfg: Config{Workloads: all, Quotas: []Quota{{"isocks", func() quota.Usage[workload.ID] { return usage }}}}}
	var got []map[string]admin.QuotaUse
	var series []map[string]metrics.Use
	seen := map[uint32]bool{}
	for i := range all {
		row := s.workloadRow(&all[i], nil)
		row.Uses = s.uses(all[i].Account, s.usages())
		got, series = append(got, row.Uses), append(series, usesOf(&row, seen))
	}
	its := map[string]admin.QuotaUse{"isocks": {Taken: 4, Refused: 2}}
	if diff := cmp.Diff([]map[string]admin.QuotaUse{{"isocks": {}}, its, its}, got); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]map[string]metrics.Use{{"isocks": {}}, {"isocks": {Taken: 4, Refused: 2}}, nil}, series); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
	if rows := s.Quotas(); rows[0].Most == nil || rows[0].Most.Name != "netns 18" {
		t.Errorf("table: %+v, want that the account is called by its first workload", rows)
	}
	if diff := cmp.Diff([]metrics.Quota{{Of: "isocks", Size: 16, Taken: 4, Refused: 2}}, measured{s}.Quotas()); diff != "" {
		t.Errorf("tables (-want +got):\n%s", diff)
	}
}
