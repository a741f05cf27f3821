// SPDX-License-Identifier: Apache-2.0

package reconcile

import "github.com/xlb-project/xlb/internal/reconcile/writes"

// Stats counts the writes of one Apply.
type Stats = writes.Stats
