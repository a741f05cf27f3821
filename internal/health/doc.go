// SPDX-License-Identifier: Apache-2.0

// Package health decides which endpoints are fit to serve: by what their responses were (Detector) and by what they
// answer when they are asked (Check). The rules are Envoy's. Clock and chance are passed in; nothing here waits, connects or
// touches the kernel, but for Probe, which asks one endpoint once.
package health
