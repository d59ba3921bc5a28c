-- KBTP for Wireshark and tshark 4.0: messages inside the Sends of iWARP and of InfiniBand or RoCE.
--
-- Field names are those of `kbtp dissect` (docs/dissect-json.md), so that kbtp.status != 0 means the same in both.
-- Octets are claimed only for KBTP that is beyond doubt: a session is known by its HELLO or HELLO_ACK, or by a
-- COMPLETION that answers a request seen before. Of a trace that begins in the middle of a session the requests in
-- front of that COMPLETION are shown on Wireshark's second pass (tshark -2).
-- Wireshark 4.0 puts the segments of a Send together, but then hands on only the first Send of a frame:
--   -o iwarp_ddp_rdmap.reassemble_iwarp_rdma_send:FALSE
-- shows them all. Of a message in several segments or packets that are not put together the head is shown.

-- begin constants: generated from proto/wire (lua_constants_test writes this part with KBTP_UPDATE=1)
local OPCODES = {
  [0x01] = "HELLO",
  [0x02] = "HELLO_ACK",
  [0x03] = "LOAD",
  [0x04] = "STORE",
  [0x05] = "ALLOC_STORE",
  [0x06] = "FREE",
  [0x07] = "BIND",
  [0x08] = "COMPLETION",
}
local STATUSES = {
  [0] = "SUCCESS",
  [1] = "INVALID_REQUEST",
  [2] = "UNSUPPORTED_VERSION",
  [3] = "UNSUPPORTED_OPCODE",
  [4] = "NO_SUCH_HANDLE",
  [5] = "NOT_OWNER",
  [6] = "NOT_BOUND",
  [7] = "ALREADY_BOUND",
  [8] = "NOT_SEALED",
  [9] = "SEALED",
  [10] = "GENERATION_MISMATCH",
  [11] = "LENGTH_ERROR",
  [12] = "NO_SPACE",
  [13] = "INVALID_TICKET",
  [14] = "TICKET_ABANDONED",
  [15] = "NO_RESOURCES",
  [16] = "ACCESS_DENIED",
  [17] = "TARGET_ERROR",
}
local FEATURES = {
  [0x0001] = "RECORD_COMPLETION",
  [0x0002] = "DIRECT_LOAD",
  [0x0004] = "DIRECT_ALLOC",
  [0x0008] = "ATOMIC_UNMASKED",
}
local FLAGS = {
  [0x0001] = "INLINE",
  [0x0002] = "SEAL",
  [0x0004] = "RECORD",
  [0x0008] = "INVALIDATE",
  [0x0010] = "ALLOW_UNSEALED",
}
local FLAG = {
  INLINE = 0x0001,
  SEAL = 0x0002,
  RECORD = 0x0004,
  INVALIDATE = 0x0008,
  ALLOW_UNSEALED = 0x0010,
}
local LEGAL_FLAGS = {
  HELLO = 0x0000,
  HELLO_ACK = 0x0000,
  LOAD = 0x001c,
  STORE = 0x000f,
  ALLOC_STORE = 0x000f,
  FREE = 0x0004,
  BIND = 0x0006,
  COMPLETION = 0x0000,
}
-- end constants

local kbtp = Proto("kbtp", "KV Cache Block Transfer Protocol")

local HEADER, DESCRIPTOR = 24, 16
local HELLO_SIZE, HELLO_ACK_SIZE, BIND_SIZE = 64, 160, 40
local COMPLETION_SIZE, PADDED_COMPLETION_SIZE = 36, 40
local FIRST_RECEIVE_SIZE = 256 -- no HELLO and no HELLO_ACK is longer (G-07)

-- Name, as in kbtp dissect; label; number of bits; base
local fields = {}
local function field(name, label, bits, form, values)
  fields[name] = ProtoField["uint" .. bits]("kbtp." .. name, label, form or base.DEC, values)
end
field("version", "Version", 8)
field("op", "Opcode", 8, base.HEX, OPCODES)
field("flags", "Flags", 16, base.HEX)
field("features", "Features", 16, base.HEX)
field("request_id", "Request ID", 64, base.HEX)
field("handle", "Block Handle", 64)
field("generation", "Generation", 16)
field("status", "Status", 16, base.DEC, STATUSES)
field("data.stag", "STag", 32, base.HEX)
field("data.to", "Tagged Offset", 64, base.HEX)
field("data.length", "Length", 32)
field("record.stag", "STag", 32, base.HEX)
field("record.to", "Tagged Offset", 64, base.HEX)
field("inline_length", "Octets of inline data", 32)
field("ticket", "Ticket", 32)
field("data_length", "Data Length", 32)
field("block_offset", "Block Offset", 64, base.HEX)
field("chosen_version", "Version of the session", 8)
field("min_version", "Min Version", 8)
field("max_version", "Max Version", 8)
field("ring_log2", "Slots of the ring, power of 2", 8)
field("max_requests", "Requests at once", 32)
field("receive_size", "Receive Size", 32)
field("max_inline", "Most inline data", 32)
field("block_size", "Block Size", 32)
field("handle_count", "Handles of the own range", 64)
field("table_base_handle", "First handle of the table", 64)
field("table_handle_count", "Handles of the table", 64)
field("pool_blocks", "Blocks of the pool", 64)
field("quota", "Allocation Quota", 32)
field("usage", "Blocks in use", 32)
field("ticket_timeout_ms", "Ticket Timeout, ms", 32)
field("table_stag", "STag of the table", 32, base.HEX)
field("table_offset", "Tagged Offset of the table", 64, base.HEX)
field("pool_stag", "STag of the pool", 32, base.HEX)
field("partition_stag", "STag of the direct partition", 32, base.HEX)
field("ring_stag", "STag of the ring", 32, base.HEX)
field("head_stag", "STag of Head", 32, base.HEX)
field("ring_offset", "Tagged Offset of the ring", 64, base.HEX)
field("head_offset", "Tagged Offset of Head", 64, base.HEX)
field("pool_offset", "Tagged Offset of the pool", 64, base.HEX)
field("pool_length", "Octets of the pool", 64)
field("partition_offset", "Tagged Offset of the partition", 64, base.HEX)
field("partition_length", "Octets of the partition", 64)
fields.identity = ProtoField.guid("kbtp.identity", "Identity")
fields.inline = ProtoField.bytes("kbtp.inline", "Inline data")
-- Each flag and feature has a field of its own: kbtp.flags.seal, kbtp.features.direct_load.
local function bits(of, names)
  local list = {}
  for bit, name in pairs(names) do
    local key = of .. "." .. name:lower()
    fields[key] = ProtoField.bool("kbtp." .. key, name, 16, nil, bit)
    list[#list + 1] = { bit = bit, name = name, key = key }
  end
  table.sort(list, function(a, b) return a.bit < b.bit end)
  return list
end
local flag_list = bits("flags", FLAGS)
local feature_list = bits("features", FEATURES)

do
  local list = {}
  for _, one in pairs(fields) do list[#list + 1] = one end
  kbtp.fields = list
end

local wrong = ProtoExpert.new("kbtp.error", "No KBTP message of this version", expert.group.PROTOCOL,
                              expert.severity.WARN)
local cut = ProtoExpert.new("kbtp.cut", "Goes on in later segments, which are not put together",
                            expert.group.REASSEMBLE, expert.severity.NOTE)
kbtp.experts = { wrong, cut }

-- What the layers below said. Without a tree, as in tshark's plain list, there are no values.
local rdmap_opcode = Field.new("iwarp_rdma.opcode")
local ddp_last = Field.new("iwarp_ddp.last_flag")
local ddp_offset = Field.new("iwarp_ddp.mo")
local bth_opcode = Field.new("infiniband.bth.opcode")
local bth_pad = Field.new("infiniband.bth.padcnt")

-- The value that stands nearest in front: a frame may hold several segments.
local function nearest(of)
  local all = { of() }
  if #all > 0 then return all[#all].value end
end

-- Sessions by the addresses of both ends: whether KBTP is certain, and request IDs seen.
local sessions = {}
function kbtp.init() sessions = {} end

local function session_of(key)
  sessions[key] = sessions[key] or { certain = false, requests = {} }
  return sessions[key]
end

local function has(flags, name) return bit.band(flags, FLAG[name]) ~= 0 end

-- The name of the message that the octets are, and whether only its head is here; else nothing and why.
-- Lengths and flags are exact, as a target checks them.
local function recognise(octets, goes_on)
  local size = octets:len()
  if size < HEADER then return nil, "shorter than a header" end
  if octets(0, 1):uint() ~= 1 then return nil, "Version is not 1" end
  local name = OPCODES[octets(1, 1):uint()]
  if not name then return nil, "Opcode is not assigned" end
  if name == "HELLO" or name == "HELLO_ACK" then
    local least = name == "HELLO" and HELLO_SIZE or HELLO_ACK_SIZE
    if size < least then return nil, "message too short" end
    return name, false
  end
  if name == "COMPLETION" then
    if size ~= COMPLETION_SIZE and size ~= PADDED_COMPLETION_SIZE then return nil, "a COMPLETION of another length" end
    return name, false
  end
  local flags = octets(2, 2):uint()
  if bit.band(flags, bit.bnot(LEGAL_FLAGS[name])) ~= 0 then return nil, "a flag that is not legal for this Opcode" end
  if has(flags, "INVALIDATE") and (has(flags, "INLINE") or has(flags, "RECORD")) then
    return nil, "INVALIDATE with INLINE or RECORD"
  end
  local needed = HEADER
  if name == "BIND" then needed = BIND_SIZE elseif name ~= "FREE" then needed = HEADER + DESCRIPTOR end
  if has(flags, "RECORD") then needed = needed + DESCRIPTOR end
  if size < needed then return nil, "message too short for its form" end
  if has(flags, "INLINE") then needed = needed + octets(36, 4):uint() end
  if size < needed and goes_on then return name, true end
  if size ~= needed then return nil, "length differs from what the form asks for" end
  return name, false
end

-- Whether a HELLO may open a session here: what it sends as zero is zero, and its length is possible.
local function opens(octets, name)
  if octets:len() > FIRST_RECEIVE_SIZE or octets(20, 2):uint() ~= 0 then return false end
  if name == "HELLO" then return octets(22, 2):uint() == 0 and octets(26, 2):uint() == 0 end
  return STATUSES[octets(22, 2):uint()] ~= nil and octets(25, 1):uint() <= octets(26, 1):uint()
end

local function bit_texts(value, list)
  local names = {}
  for _, one in ipairs(list) do
    if bit.band(value, one.bit) ~= 0 then names[#names + 1] = one.name end
  end
  return names
end

local function add_bits(tree, range, key, list)
  local item = tree:add(fields[key], range)
  local names = bit_texts(range:uint(), list)
  if #names > 0 then item:append_text(" (" .. table.concat(names, ", ") .. ")") end
  for _, one in ipairs(list) do item:add(fields[one.key], range) end
end

-- 5.1. The Status of a request says nothing: it is left out, so that kbtp.status != 0 is about answers.
local function add_header(tree, octets)
  local name = OPCODES[octets(1, 1):uint()]
  tree:add(fields.version, octets(0, 1))
  tree:add(fields.op, octets(1, 1))
  if name == "HELLO" or name == "HELLO_ACK" then
    add_bits(tree, octets(2, 2), "features", feature_list)
  else
    add_bits(tree, octets(2, 2), "flags", flag_list)
  end
  tree:add(fields.request_id, octets(4, 8))
  tree:add(fields.handle, octets(12, 8))
  tree:add(fields.generation, octets(20, 2))
  local answer = name == "HELLO_ACK" or name == "COMPLETION" or name == nil
  if answer or octets(22, 2):uint() ~= 0 then tree:add(fields.status, octets(22, 2)) end
end

-- Places are { name, offset, size }.
local function add_fields(tree, octets, places)
  for _, place in ipairs(places) do
    tree:add(fields[place[1]], octets(place[2], place[3]))
  end
end

local HELLO_FIELDS = {
  { "min_version", 24, 1 }, { "max_version", 25, 1 }, { "max_requests", 28, 4 }, { "receive_size", 32, 4 },
  { "quota", 36, 4 }, { "handle_count", 40, 8 }, { "identity", 48, 16 },
}
local HELLO_ACK_FIELDS = {
  { "chosen_version", 24, 1 }, { "min_version", 25, 1 }, { "max_version", 26, 1 }, { "ring_log2", 27, 1 },
  { "max_requests", 28, 4 }, { "max_inline", 32, 4 }, { "block_size", 36, 4 }, { "handle_count", 40, 8 },
  { "table_base_handle", 48, 8 }, { "table_handle_count", 56, 8 }, { "pool_blocks", 64, 8 }, { "quota", 72, 4 },
  { "usage", 76, 4 }, { "ticket_timeout_ms", 80, 4 }, { "table_stag", 84, 4 }, { "table_offset", 88, 8 },
  { "pool_stag", 96, 4 }, { "partition_stag", 100, 4 }, { "ring_stag", 104, 4 }, { "head_stag", 108, 4 },
  { "ring_offset", 112, 8 }, { "head_offset", 120, 8 }, { "pool_offset", 128, 8 }, { "pool_length", 136, 8 },
  { "partition_offset", 144, 8 }, { "partition_length", 152, 8 },
}
local BIND_FIELDS = { { "ticket", 24, 4 }, { "data_length", 28, 4 }, { "block_offset", 32, 8 } }
local COMPLETION_FIELDS = { { "data_length", 24, 4 }, { "block_offset", 28, 8 } }
local PADDED_COMPLETION_FIELDS = { { "data_length", 24, 4 }, { "block_offset", 32, 8 } }

local function add_data_descriptor(tree, octets)
  local part = tree:add(octets(HEADER, DESCRIPTOR), "Data Descriptor")
  part:add(fields["data.stag"], octets(HEADER, 4))
  part:add(fields["data.to"], octets(HEADER + 4, 8))
  part:add(fields["data.length"], octets(HEADER + 12, 4))
end

local function add_completion_descriptor(tree, octets, offset)
  local part = tree:add(octets(offset, DESCRIPTOR), "Completion Descriptor")
  part:add(fields["record.stag"], octets(offset, 4))
  part:add(fields["record.to"], octets(offset + 4, 8))
end

local function add_request(tree, octets, name)
  local flags = octets(2, 2):uint()
  local offset = HEADER
  if name == "BIND" then
    add_fields(tree, octets, BIND_FIELDS)
    offset = BIND_SIZE
  elseif name ~= "FREE" then
    add_data_descriptor(tree, octets)
    offset = HEADER + DESCRIPTOR
  end
  if has(flags, "RECORD") then
    add_completion_descriptor(tree, octets, offset)
    offset = offset + DESCRIPTOR
  end
  if not has(flags, "INLINE") then return end
  local here = octets:len() - offset
  tree:add(fields.inline_length, octets(36, 4)):set_generated()
  if here > 0 then tree:add(fields.inline, octets(offset, here)) end
end

local function add_message(tree, octets, name)
  add_header(tree, octets)
  if name == "HELLO" then
    add_fields(tree, octets, HELLO_FIELDS)
  elseif name == "HELLO_ACK" then
    add_fields(tree, octets, HELLO_ACK_FIELDS)
  elseif name == "COMPLETION" then
    add_fields(tree, octets, octets:len() == COMPLETION_SIZE and COMPLETION_FIELDS or PADDED_COMPLETION_FIELDS)
  else
    add_request(tree, octets, name)
  end
end

-- "LOAD handle 7", "COMPLETION handle 7 NOT_BOUND"
local function one_line(octets, name)
  local text = name .. " handle " .. tostring(octets(12, 8):uint64())
  if name == "HELLO" then return name end
  if name ~= "HELLO_ACK" and name ~= "COMPLETION" then return text end
  local status = octets(22, 2):uint()
  if name == "HELLO_ACK" then text = name end
  return text .. " " .. (STATUSES[status] or ("Status " .. status))
end

-- Whether octets of a message in this session are KBTP beyond doubt; takes note of what they tell.
local function certain(session, octets, name)
  local id = octets(4, 8):bytes():tohex()
  if name == "HELLO" or name == "HELLO_ACK" then
    if opens(octets, name) then session.certain = true end
  elseif name == "COMPLETION" then
    if session.requests[id] then session.certain = true end
  else
    session.requests[id] = true
  end
  return session.certain
end

-- `sure`: the layers below have said that a Send begins here.
local function dissect(octets, pinfo, tree, key, sure, goes_on)
  local session = session_of(key)
  local name, more = recognise(octets, goes_on)
  if name and not certain(session, octets, name) then return false end
  if not name and not (session.certain and sure and octets:len() >= HEADER) then return false end

  pinfo.cols.protocol:set("KBTP")
  local item = tree:add(kbtp, octets())
  if not name then
    add_header(item, octets)
    item:add_proto_expert_info(wrong, "No KBTP message: " .. more)
    pinfo.cols.info:append(" [KBTP? " .. more .. "]")
    return true
  end
  local line = one_line(octets, name)
  item:append_text(", " .. line)
  pinfo.cols.info:append(" [" .. line .. "]")
  add_message(item, octets, name)
  if more then item:add_proto_expert_info(cut) end
  return true
end

local function pair(one, other) return one < other and one .. " " .. other or other .. " " .. one end

kbtp:register_heuristic("iwarp_ddp_rdmap", function(octets, pinfo, tree)
  local opcode, offset = nearest(rdmap_opcode), nearest(ddp_offset)
  if opcode and (opcode < 3 or opcode > 6) then return false end -- Sends only (RFC 5040 4.2)
  -- The last segment of a Send comes with those before it, or is no begin of a message.
  if opcode and offset ~= 0 and octets:len() <= offset then return false end
  local goes_on = opcode and not nearest(ddp_last)
  local from, to = tostring(pinfo.src) .. ":" .. pinfo.src_port, tostring(pinfo.dst) .. ":" .. pinfo.dst_port
  return dissect(octets, pinfo, tree, pair(from, to), opcode and offset == 0, goes_on)
end)

-- Of reliable and unreliable connections (IBTA 9.2.1): Send First; Send Only, with Immediate, with Invalidate.
local SEND_FIRST, SEND_WHOLE = 0x00, { [0x04] = true, [0x05] = true, [0x17] = true }

kbtp:register_heuristic("infiniband.payload", function(octets, pinfo, tree)
  local opcode = nearest(bth_opcode)
  local operation = opcode and bit.band(opcode, 0x1F)
  if opcode and operation ~= SEND_FIRST and not SEND_WHOLE[operation] then return false end
  local pad = nearest(bth_pad) or 0
  if pad > 0 and octets:len() > pad then octets = octets(0, octets:len() - pad):tvb() end
  return dissect(octets, pinfo, tree, pair(tostring(pinfo.src), tostring(pinfo.dst)), opcode ~= nil,
                 operation == SEND_FIRST)
end)
