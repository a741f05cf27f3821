// SPDX-License-Identifier: Apache-2.0

// Package policy decides about requests of package slowpath: whether one may be sent, whether it is sent again, which cluster and which endpoint are its. It
// moves no bytes and knows no connection; package slowpath acts on what it says.
package policy
