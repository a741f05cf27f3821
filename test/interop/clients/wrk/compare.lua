-- SPDX-License-Identifier: Apache-2.0
--
-- Compares the first bodies with a file, and tells how many were right.
-- Arguments: how many, the file.

local threads = {}

function setup(thread)
	table.insert(threads, thread)
end

function init(args)
	wanted = tonumber(args[1])
	local file = assert(io.open(args[2], "rb"))
	content = file:read("*a")
	file:close()
	seen, right = 0, 0
end

function response(status, _, body)
	if seen == wanted then
		return
	end
	seen = seen + 1
	if status == 200 and body == content then
		right = right + 1
	end
	if seen == wanted then
		wrk.thread:stop()
	end
end

function done()
	local sum = 0
	for _, thread in ipairs(threads) do
		sum = sum + thread:get("right")
	end
	io.write("right: ", sum, "\n")
end
