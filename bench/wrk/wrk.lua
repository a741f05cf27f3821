-- SPDX-License-Identifier: Apache-2.0
-- Writes wrk's exact counts after its own text, as one line of JSON that the
-- benchmark reads. Only done() is defined: nothing here runs per request.
function done(summary, latency, requests)
  local pairs_of = {}
  for i = 1, #latency do
    local us, count = latency(i)
    pairs_of[i] = string.format("[%d,%d]", us, count)
  end
  local e = summary.errors
  io.write(string.format(
    'REPORT {"requests":%d,"errors":%d,"duration_us":%d,"latency":[%s]}\n',
    summary.requests - e.status, e.connect + e.read + e.write + e.status + e.timeout,
    summary.duration, table.concat(pairs_of, ",")))
end
