// SPDX-License-Identifier: Apache-2.0

package metrics

// limitStats are those of circuit breakers, retries and timeouts, in the order in which a reader asks for them.
var limitStats = append(append([]namedStat{
	counterOf("upstream_rq_active_overflow", "Requests that were refused because as many were in flight as the circuit breaker allows."),
	counterOf("upstream_rq_pending_overflow", "Requests that were refused because as many waited as the circuit breaker allows."),
	counterOf("upstream_rq_retry", "Requests that were sent again, each time."),
	counterOf("upstream_rq_retry_success", "Retries whose outcome asked for no other one."),
	counterOf("upstream_rq_retry_overflow", "Retries that a circuit breaker, or the retry budget, forbade."),
	counterOf("upstream_rq_retry_limit_exceeded", "Requests that failed once more after their last retry."),
	counterOf("upstream_rq_timeout", "Requests that an endpoint had not answered when the time of the route was up."),
	counterOf("upstream_rq_per_try_timeout", "Attempts that took longer than the retry policy allows."),
	counterOf("upstream_rq_per_try_idle_timeout", "Attempts that stood still for longer than the retry policy allows."),
}, breakerStats("default")...), breakerStats("high")...)

// breakerStats are those of one priority.
func breakerStats(priority string) []namedStat {
	gauge := func(name, help string) namedStat {
		return namedStatOf("circuit_breakers."+priority+"."+name, help, true)
	}
	return []namedStat{
		gauge("cx_open", "1 while a pod, or the host, has as many connections in use as the circuit breaker allows."),
		gauge("rq_open", "1 while a pod, or the host, has as many requests in flight as the circuit breaker allows."),
		gauge("rq_pending_open", "1 while as many requests of a pod, or the host, wait as the circuit breaker allows."),
		gauge("rq_retry_open", "1 while as many retries of a pod, or the host, are under way as the circuit breaker, or the retry budget, allows."),
		gauge("remaining_cx", "Connections that the circuit breaker leaves the pod that has most; with track_remaining."),
		gauge("remaining_rq", "Requests that the circuit breaker leaves the pod that has most; with track_remaining."),
		gauge("remaining_pending", "Waiting requests that the circuit breaker leaves the pod that has most; with track_remaining."),
		gauge("remaining_retries", "Retries that the circuit breaker leaves the pod that has most; with track_remaining."),
	}
}
