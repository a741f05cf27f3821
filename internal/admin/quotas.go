// SPDX-License-Identifier: Apache-2.0

package admin

// QuotasPath is that of the tables that the workloads share.
const QuotasPath = "/xlb/quotas"

// Names of the tables, as Quota.Of and the labels of metrics have them.
const (
	QuotaConnections     = "connections"
	QuotaISocks          = "isocks"
	QuotaRequests        = "requests"
	QuotaIdleConnections = "idle_connections"
	QuotaCopies          = "copies"
	QuotaMemory          = "memory"
	QuotaNamespaces      = "namespaces"
	QuotaDestinations    = "destinations"
)

// Quota is a row of /xlb/quotas: a table that the workloads share. While others than the host are served, one may have as many entries as are left free.
type Quota struct {
	// Of is the name of the table: what an entry is.
	Of string `json:"of"`
	// Size is how many entries there may be, Taken how many there are.
	Size  uint64 `json:"size"`
	Taken uint64 `json:"taken"`
	// Refused counts those that there was no room for.
	Refused uint64 `json:"refused"`
	// Most has most of them; null: no workload has any.
	Most *QuotaUser `json:"most,omitempty"`
}

// QuotaUser is a workload, with the others of its account.
type QuotaUser struct {
	// ID is its number, Name as in /xlb/workloads, empty where it has left.
	ID      uint32 `json:"id"`
	Name    string `json:"name,omitempty"`
	Taken   uint64 `json:"taken"`
	Refused uint64 `json:"refused"`
}

// QuotaUse is what an account has of a table.
type QuotaUse struct {
	Taken   uint64 `json:"taken"`
	Refused uint64 `json:"refused"`
}
