// SPDX-License-Identifier: Apache-2.0

// Package clusters compiles clusters of the model. A compiled cluster tells by which groups requests are balanced while its endpoints are in
// certain states: by priority (priority.go), locality (locality.go, zone.go) and subset (subset.go), with schedules (schedule.go) or a table of
// hashes (hash.go) at the end.
package clusters
