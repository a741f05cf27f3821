// SPDX-License-Identifier: Apache-2.0

package maps

import "sync/atomic"

// The daemon's side of bpf/lib/outlier.h: errors in a row, counted on the same words by both paths.

// SetErrorLimits says how many errors in a row, 5xx and gateway's, wake the daemon; 0 is never.
func (s *Shared) SetErrorLimits(endpoint, errors, gatewayErrors uint32) {
	e := &s.Endpoints[endpoint]
	atomic.StoreUint32(&e.ErrorLimit, errors)
	atomic.StoreUint32(&e.GatewayErrorLimit, gatewayErrors)
}

// CountStatus takes the status of a final response into account, and returns which limits it has reached.
func (s *Shared) CountStatus(endpoint uint32, status int) Outlier {
	e := &s.Endpoints[endpoint]
	var reached Outlier
	if atomic.LoadUint32(&e.ErrorLimit)|atomic.LoadUint32(&e.GatewayErrorLimit) == 0 {
		return 0
	}
	if countError(&e.GatewayErrors, &e.GatewayErrorLimit, status >= 502 && status <= 504) {
		reached |= OutlierGatewayErrors
	}
	if countError(&e.Errors, &e.ErrorLimit, status >= 500) {
		reached |= OutlierErrors
	}
	return reached
}

// countError reports whether this error is the one that reaches the limit.
func countError(count, limit *uint32, isError bool) bool {
	switch {
	case isError:
		return atomic.AddUint32(count, 1) == atomic.LoadUint32(limit)
	case atomic.LoadUint32(count) != 0:
		atomic.StoreUint32(count, 0)
	}
	return false
}

// ReachedLimits returns which limits the errors in a row have reached or passed: those of lost events too.
func (s *Shared) ReachedLimits(endpoint uint32) Outlier {
	e := &s.Endpoints[endpoint]
	var reached Outlier
	if limit := atomic.LoadUint32(&e.GatewayErrorLimit); limit != 0 && atomic.LoadUint32(&e.GatewayErrors) >= limit {
		reached |= OutlierGatewayErrors
	}
	if limit := atomic.LoadUint32(&e.ErrorLimit); limit != 0 && atomic.LoadUint32(&e.Errors) >= limit {
		reached |= OutlierErrors
	}
	return reached
}

// ForgetErrors begins those counts anew.
func (s *Shared) ForgetErrors(endpoint uint32, which Outlier) {
	e := &s.Endpoints[endpoint]
	if which&OutlierGatewayErrors != 0 {
		atomic.StoreUint32(&e.GatewayErrors, 0)
	}
	if which&OutlierErrors != 0 {
		atomic.StoreUint32(&e.Errors, 0)
	}
}
