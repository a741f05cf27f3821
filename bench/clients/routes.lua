-- SPDX-License-Identifier: Apache-2.0
-- Requests for the routes of routes.txt, which lies beside this file, in turns.
local asked, at = {}, 0

function init(args)
  local folder = debug.getinfo(1, "S").source:match("^@(.*/)")
  for line in io.lines(folder .. "routes.txt") do
    local path, header = line:match("^(%S+) ?(%S*)$")
    asked[#asked + 1] = wrk.format("GET", path, header ~= "" and { ["x-route"] = header } or {})
  end
end

function request()
  at = at % #asked + 1
  return asked[at]
end
