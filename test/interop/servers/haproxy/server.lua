-- SPDX-License-Identifier: Apache-2.0
--
-- The services of the interop matrix inside HAProxy. Files are read at start:
-- a service that reads one would block the whole process.

local files = os.getenv("INTEROP_FILES")
local store = os.getenv("INTEROP_STORE")

local function read(name)
	local file = assert(io.open(files .. "/" .. name, "rb"))
	local content = file:read("*a")
	file:close()
	return content
end

local contents = { ["/large"] = read("large"), ["/chunked"] = read("chunked") }
for n = 0, 99 do
	local name = string.format("small/%02d", n)
	contents["/" .. name] = read(name)
end

local function answer(applet, status, body)
	applet:set_status(status)
	applet:start_response()
	-- What a HEAD must not have, HAProxy leaves out.
	if body then
		applet:send(body)
	end
end

core.register_service("file", "http", function(applet)
	local content = contents[applet.path]
	if not content then
		answer(applet, 404)
		return
	end
	local etag = '"' .. applet.path:match("[^/]*$") .. '"'
	applet:add_header("ETag", etag)
	local asked = applet.headers["if-none-match"]
	if asked and asked[0] == etag then
		answer(applet, 304)
		return
	end
	applet:add_header("Content-Length", #content)
	answer(applet, 200, applet.method ~= "HEAD" and content or nil)
end)

-- Without a length HAProxy chunks.
core.register_service("chunked", "http", function(applet)
	answer(applet, 200, contents["/chunked"])
end)

core.register_service("keep", "http", function(applet)
	local body = applet:receive()
	local file = assert(io.open(store .. "/" .. applet.path:match("[^/]*$"), "wb"))
	file:write(body)
	file:close()
	applet:add_header("Content-Length", 0)
	answer(applet, 201)
end)
