// SPDX-License-Identifier: Apache-2.0

package status

import (
	"github.com/xlb-project/xlb/internal/admin"
	"github.com/xlb-project/xlb/internal/metrics"
	"github.com/xlb-project/xlb/internal/quota"
	"github.com/xlb-project/xlb/internal/workload"
)

// Quota is a table that the workloads share.
type Quota struct {
	// Of says what an entry is, as metrics and the admin API name it.
	Of string
	// Usage is by the accounts of workloads.
	Usage func() quota.Usage[workload.ID]
}

// usages are those of the tables, in their order.
func (s *Status) usages() []quota.Usage[workload.ID] {
	list := make([]quota.Usage[workload.ID], len(s.cfg.Quotas))
	for i := range s.cfg.Quotas {
		list[i] = s.cfg.Quotas[i].Usage()
	}
	return list
}

// Quotas implements admin.Source.
func (s *Status) Quotas() []admin.Quota {
	names := namesOfAccounts(s.cfg.Workloads.List())
	rows := make([]admin.Quota, 0, len(s.cfg.Quotas))
	for i, u := range s.usages() {
		rows = append(rows, quotaRow(s.cfg.Quotas[i].Of, &u, names))
	}
	return rows
}

// namesOfAccounts are the names of accounts, each that of its workload with the lowest number: the one that it is called by may have left.
func namesOfAccounts(infos []workload.Info) map[workload.ID]string {
	names := map[workload.ID]string{}
	for i := range infos {
		if names[infos[i].Account] == "" {
			names[infos[i].Account] = nameOf(&infos[i])
		}
	}
	return names
}

func quotaRow(of string, u *quota.Usage[workload.ID], names map[workload.ID]string) admin.Quota {
	row := admin.Quota{Of: of, Size: uint64(u.Size), Taken: uint64(u.Taken), Refused: u.Refused}
	for number, use := range u.By {
		most := row.Most
		if use.Taken == 0 || most != nil && (uint64(use.Taken) < most.Taken || uint64(use.Taken) == most.Taken && uint32(number) > most.ID) {
			continue
		}
		row.Most = &admin.QuotaUser{ID: uint32(number), Name: names[number], Taken: uint64(use.Taken), Refused: use.Refused}
	}
	return row
}

// uses is what an account has of each table.
func (s *Status) uses(account workload.ID, usages []quota.Usage[workload.ID]) map[string]admin.QuotaUse {
	its := make(map[string]admin.QuotaUse, len(usages))
	for i := range usages {
		use := usages[i].By[account]
		its[s.cfg.Quotas[i].Of] = admin.QuotaUse{Taken: uint64(use.Taken), Refused: use.Refused}
	}
	return its
}

// Quotas implements metrics.Source.
func (m measured) Quotas() []metrics.Quota {
	var list []metrics.Quota
	for i, u := range m.status.usages() {
		list = append(list, metrics.Quota{Of: m.status.cfg.Quotas[i].Of, Size: uint64(u.Size), Taken: uint64(u.Taken), Refused: u.Refused})
	}
	return list
}

// usesOf is what a row's account has, for the first row of it: the others have no series.
func usesOf(row *admin.Workload, seen map[uint32]bool) map[string]metrics.Use {
	if seen[row.Account] {
		return nil
	}
	seen[row.Account] = true
	its := make(map[string]metrics.Use, len(row.Uses))
	for of, use := range row.Uses {
		its[of] = metrics.Use(use)
	}
	return its
}
