// SPDX-License-Identifier: Apache-2.0

package maps

// Exported names of the generated types and constants. bpf/lib/abi.h documents each.

type (
	// Automaton is a table of transitions.
	Automaton = abiAutomaton
	// Account is what the clients of one or more network namespaces have together.
	Account = abiAccount
	// AnchorPorts are where the connections of a network namespace really go.
	AnchorPorts = abiAnchorPorts
	// AskedField is what routes ask about a header.
	AskedField = abiAskedField
	// BodyScan is how far a body has been followed.
	BodyScan = abiBodyScan
	// BucketKey is a key of an index.
	BucketKey = abiBucketKey
	// Candidates are the routes a path may take.
	Candidates = abiCandidates
	// Cells are some of an automaton's transitions.
	Cells = abiCells
	// ClientLook is a question about a client's connection, and the kernel's answer.
	ClientLook = abiClientLook
	// Cluster is a cluster's balancing state.
	Cluster = abiCluster
	// ConnKey names a client connection as its anchor sees it.
	ConnKey = abiConnKey
	// ConnRecord is what the daemon learns of a connection at accept.
	ConnRecord = abiConnRecord
	// CookieKey is a socket's cookie as the key of a trie.
	CookieKey = abiCookieKey
	// Control is the daemon's sign of life.
	Control = abiControl
	// Endpoint is an endpoint's balancing state.
	Endpoint = abiEndpoint
	// EndpointAddress is where an endpoint listens.
	EndpointAddress = abiEndpointAddress
	// Event is what wakes the daemon.
	Event = abiEvent
	// Explanation is a question about a request, and the kernel's answer.
	Explanation = abiExplanation
	// FieldKey is a header name that routes ask about.
	FieldKey = abiFieldKey
	// Group is what a choice is made among.
	Group = abiGroup
	// Hold is why a connection's next request is handed over.
	Hold = abiHold
	// Offer is what the daemon knows of a connection that it offers.
	Offer = abiOffer
	// GroupFlags say what a group's schedule holds.
	GroupFlags = abiGroupFlags
	// HostKey is a key of the host trie.
	HostKey = abiHostKey
	// Listener is a listener's current route table, and whose entry it is.
	Listener = abiListener
	// Load is how many requests an account has in flight to a cluster.
	Load = abiLoad
	// LoadSet are the loads of the same hash.
	LoadSet = abiLoadSet
	// ListenerKey is a service address, or with Bits many destinations.
	ListenerKey = abiListenerKey
	// captureKey is many destinations.
	captureKey = abiCaptureKey
	// ExclusionKey is addresses by their beginning.
	ExclusionKey = abiExclusionKey
	// PathKey is a key of the path trie.
	PathKey = abiPathKey
	// PathRoutes are what a path leads to, in the hash.
	PathRoutes = abiPathRoutes
	// PathText is a key of the paths in the hash.
	PathText = abiPathText
	// PseudoHeader is what is compared like a header.
	PseudoHeader = abiPseudoHeader
	// PeerKey names an i-sock by its far end.
	PeerKey = abiPeerKey
	// Pool is a workload's i-socks to an endpoint.
	Pool = abiPool
	// PoolKey says whose a Pool is.
	PoolKey = abiPoolKey
	// Rewrite is a text in place of the beginning of a path.
	Rewrite = abiRewrite
	// RetrySet is the responses that may send a request again.
	RetrySet = abiRetrySet
	// Route is a compiled route.
	Route = abiRoute
	// RouteTable is one version of a route table.
	RouteTable = abiRouteTable
	// Slot is an i-sock and its lease.
	Slot = abiSlot
	// RequestCopy is the request of a slot's lease.
	RequestCopy = abiRequestCopy
	// SlowConn is a connection on the slow path.
	SlowConn = abiSlowConn
	// Split is a share of a weighted route.
	Split = abiSplit
	// Tuple is a part of an index.
	Tuple = abiTuple
	// Value is what is known of a header's value.
	Value = abiValue
	// ValueKey names a value of a header, or the beginning of one.
	ValueKey = abiValueKey
	// VHost is how a virtual host's paths are looked up.
	VHost = abiVhost
	// AskedFlags say which values of a header have records.
	AskedFlags = abiAskedFlags
	// EndpointFlags say why an endpoint is out of service.
	EndpointFlags = abiEndpointFlags
	// EventKind says what happened.
	EventKind = abiEventKind
	// Guard is an invariant of every exchange.
	Guard = abiGuard
	// HashPlace is a place of a table that finds endpoints by hash.
	HashPlace = abiHashPlace
	// HashPolicy says what is hashed of a request.
	HashPolicy = abiHashPolicy
	// HostDirection says how a host trie key reads.
	HostDirection = abiHostDirection
	// Limits bound what the kernel programs read.
	Limits = abiLimits
	// Outlier says which errors in a row an event is about.
	Outlier = abiOutlier
	// Pending says what of a lease has not ended.
	Pending = abiPending
	// Phase is where a response stands.
	Phase = abiPhase
	// ConnFlags say what a connection is.
	ConnFlags = abiConnFlags
	// Policy is a load balancing policy.
	Policy = abiPolicy
	// RequestFlags describe a leased request.
	RequestFlags = abiRequestFlags
	// RetryFlags say what else a RetrySet is about.
	RetryFlags = abiRetryFlags
	// RouteFlags describe a route.
	RouteFlags = abiRouteFlags
	// SlotFlags describe an i-sock.
	SlotFlags = abiSlotFlags
	// SlotState is the state of an i-sock.
	SlotState = abiSlotState
	// Spill says who frames a spilled response.
	Spill = abiSpill
	// TableFlags describe a route table.
	TableFlags = abiTableFlags
	// Traffic is what was carried on the fast path.
	Traffic = abiTraffic
	// Verdict is why a kernel program ended as it did.
	Verdict = abiVerdict
)

// Values of AskedFlags.
const (
	AskedValues    = abiAskedFlagsASKED_VALUES
	AskedPrefixes  = abiAskedFlagsASKED_PREFIXES
	AskedHashShift = abiAskedFlagsASKED_HASH_SHIFT
)

// Values of EndpointFlags.
const (
	EndpointDown         = abiEndpointFlagsENDPOINT_DOWN
	EndpointGone         = abiEndpointFlagsENDPOINT_GONE
	EndpointOutOfService = abiEndpointFlagsENDPOINT_OUT_OF_SERVICE
	EndpointUnhealthy    = abiEndpointFlagsENDPOINT_UNHEALTHY
	EndpointEjected      = abiEndpointFlagsENDPOINT_EJECTED
	EndpointDegraded     = abiEndpointFlagsENDPOINT_DEGRADED
	EndpointExcluded     = abiEndpointFlagsENDPOINT_EXCLUDED
	EndpointTLS          = abiEndpointFlagsENDPOINT_TLS
	EndpointGuarded      = abiEndpointFlagsENDPOINT_GUARDED
)

// Values of EventKind.
const (
	EventPoolLow    = abiEventKindEVENT_POOL_LOW
	EventHandover   = abiEventKindEVENT_HANDOVER
	EventSlotBroken = abiEventKindEVENT_SLOT_BROKEN
	EventSpilled    = abiEventKindEVENT_SPILLED
	EventOutlier    = abiEventKindEVENT_OUTLIER
	EventArrived    = abiEventKindEVENT_ARRIVED
	EventGuard      = abiEventKindEVENT_GUARD
	EventNamespace  = abiEventKindEVENT_NAMESPACE
)

// Values of Hold.
const (
	HoldNot   = abiHoldHOLD_NOT
	HoldLimit = abiHoldHOLD_LIMIT
	HoldGuard = abiHoldHOLD_GUARD
)

// Values of Offer.
const (
	OfferNone     = abiOfferOFFER_NONE
	OfferSentOn   = abiOfferOFFER_SENT_ON
	OfferAnswered = abiOfferOFFER_ANSWERED
)

// Values of Guard.
const (
	GuardCut        = abiGuardGUARD_CUT
	GuardShort      = abiGuardGUARD_SHORT
	GuardConcurrent = abiGuardGUARD_CONCURRENT
	GuardSequence   = abiGuardGUARD_SEQUENCE
	GuardUrgent     = abiGuardGUARD_URGENT
	GuardUnasked    = abiGuardGUARD_UNASKED
	GuardCount      = abiGuardGUARD_COUNT
)

// Values of Outlier.
const (
	OutlierErrors        = abiOutlierOUTLIER_ERRORS
	OutlierGatewayErrors = abiOutlierOUTLIER_GATEWAY_ERRORS
)

// Values of HostDirection.
const (
	HostBackward = abiHostDirectionHOST_BACKWARD
	HostForward  = abiHostDirectionHOST_FORWARD
)

// Values of Limits.
const (
	MaxGrown        = abiLimitsMAX_GROWN
	MaxListeners    = abiLimitsMAX_LISTENERS
	CookieBits      = abiLimitsCOOKIE_BITS
	MaxHead         = abiLimitsMAX_HEAD
	MaxCopy         = abiLimitsMAX_COPY
	MaxPath         = abiLimitsMAX_PATH
	MaxHost         = abiLimitsMAX_HOST
	MaxPathText     = abiLimitsMAX_PATH_TEXT
	MaxPathLengths  = abiLimitsPATH_LENGTHS
	WholePath       = abiLimitsWHOLE_PATH
	MaxFieldName    = abiLimitsMAX_FIELD_NAME
	MaxFieldValue   = abiLimitsMAX_FIELD_VALUE
	MaxRewrite      = abiLimitsMAX_REWRITE
	MaxFields       = abiLimitsMAX_FIELDS
	MaxParameters   = abiLimitsMAX_PARAMETERS
	MaxCandidates   = abiLimitsMAX_CANDIDATES
	MaxSplit        = abiLimitsMAX_SPLIT
	MaxPredicates   = abiLimitsMAX_PREDICATES
	MaxTuples       = abiLimitsMAX_TUPLES
	MaxTupleFields  = abiLimitsMAX_TUPLE_FIELDS
	MaxClasses      = abiLimitsMAX_CLASSES
	MaxAutomata     = abiLimitsMAX_AUTOMATA
	MaxHashPolicies = abiLimitsMAX_HASH_POLICIES
	MaxHashed       = abiLimitsMAX_HASHED
	CellsPerBlock   = abiLimitsCELLS
	ListsPerPage    = abiLimitsACCEPTS
	MaxPickTries    = abiLimitsMAX_PICK_TRIES
	MaxGroupDepth   = abiLimitsMAX_GROUP_DEPTH
	MaxScan         = abiLimitsMAX_SCAN
	MaxLeaseTries   = abiLimitsMAX_LEASE_TRIES
	AnchorPortCount = abiLimitsANCHOR_PORTS
	MaxMessages     = abiLimitsMAX_MESSAGES
)

// Values of Pending.
const (
	PendingRequest  = abiPendingPENDING_REQUEST
	PendingResponse = abiPendingPENDING_RESPONSE
	PendingSend     = abiPendingPENDING_SEND
	PendingReply    = abiPendingPENDING_REPLY
)

// Values of Phase.
const (
	PhaseHead              = abiPhasePHASE_HEAD
	PhaseLength            = abiPhasePHASE_LENGTH
	PhaseChunkSize         = abiPhasePHASE_CHUNK_SIZE
	PhaseChunkExt          = abiPhasePHASE_CHUNK_EXT
	PhaseChunkExtName      = abiPhasePHASE_CHUNK_EXT_NAME
	PhaseChunkExtEquals    = abiPhasePHASE_CHUNK_EXT_EQUALS
	PhaseChunkExtValue     = abiPhasePHASE_CHUNK_EXT_VALUE
	PhaseChunkExtQuoted    = abiPhasePHASE_CHUNK_EXT_QUOTED
	PhaseChunkExtUnquoted  = abiPhasePHASE_CHUNK_EXT_UNQUOTED
	PhaseChunkSpace        = abiPhasePHASE_CHUNK_SPACE
	PhaseChunkExtNameSpace = abiPhasePHASE_CHUNK_EXT_NAME_SPACE
	PhaseChunkSizeLF       = abiPhasePHASE_CHUNK_SIZE_LF
	PhaseChunkData         = abiPhasePHASE_CHUNK_DATA
	PhaseChunkDataCR       = abiPhasePHASE_CHUNK_DATA_CR
	PhaseChunkDataLF       = abiPhasePHASE_CHUNK_DATA_LF
	PhaseTrailerStart      = abiPhasePHASE_TRAILER_START
	PhaseLastLF            = abiPhasePHASE_LAST_LF
	PhaseDone              = abiPhasePHASE_DONE
	PhaseTunnel            = abiPhasePHASE_TUNNEL
)

// Values of GroupFlags.
const (
	GroupOfGroups = abiGroupFlagsGROUP_OF_GROUPS
)

// ConnPlain and ConnUnseen are the ConnFlags.
const (
	ConnPlain  = abiConnFlagsCONN_PLAIN
	ConnUnseen = abiConnFlagsCONN_UNSEEN
)

// Values of Policy.
const (
	PolicyRoundRobin    = abiPolicyPOLICY_ROUND_ROBIN
	PolicyLeastRequest  = abiPolicyPOLICY_LEAST_REQUEST
	PolicyRandom        = abiPolicyPOLICY_RANDOM
	PolicyRingHash      = abiPolicyPOLICY_RING_HASH
	PolicyMaglev        = abiPolicyPOLICY_MAGLEV
	PolicyLeastWeighted = abiPolicyPOLICY_LEAST_WEIGHTED
	PolicyLeastScan     = abiPolicyPOLICY_LEAST_SCAN
)

// Values of enum hash_policy, a byte of Route.Hash.
const (
	HashField    = abiHashPolicyHASH_FIELD
	HashSourceIP = abiHashPolicyHASH_SOURCE_IP
	HashTerminal = abiHashPolicyHASH_TERMINAL
)

// Places in RouteTable.Pseudo.
const (
	PseudoMethod = abiPseudoHeaderPSEUDO_METHOD
	PseudoPath   = abiPseudoHeaderPSEUDO_PATH
)

// Values of RetryFlags.
const (
	RetryKept    = abiRetryFlagsRETRY_KEPT
	RetryLimited = abiRetryFlagsRETRY_LIMITED
)

// The statuses that a RetrySet tells apart.
const (
	FirstStatus = uint32(abiRetryStatusesFIRST_STATUS)
	StatusWords = uint32(abiRetryStatusesSTATUS_WORDS)
)

// Values of RequestFlags.
const (
	RequestHead    = abiRequestFlagsREQUEST_HEAD
	RequestUpgrade = abiRequestFlagsREQUEST_UPGRADE
	RequestSpilled = abiRequestFlagsREQUEST_SPILLED
)

// Values of RouteFlags.
const (
	RouteWebsocket = abiRouteFlagsROUTE_WEBSOCKET
	RouteSlow      = abiRouteFlagsROUTE_SLOW
	// RouteRetryShift is above the flags: there lies the number of the route's RetrySet.
	RouteRetryShift = abiRouteFlagsROUTE_RETRY_SHIFT
)

// Values of SlotFlags.
const (
	SlotLocal   = abiSlotFlagsSLOT_LOCAL
	SlotRetire  = abiSlotFlagsSLOT_RETIRE
	SlotTainted = abiSlotFlagsSLOT_TAINTED
	SlotUrgent  = abiSlotFlagsSLOT_URGENT
)

// Values of SlotState.
const (
	SlotFree       = abiSlotStateSLOT_FREE
	SlotConnecting = abiSlotStateSLOT_CONNECTING
	SlotReady      = abiSlotStateSLOT_READY
	SlotLeased     = abiSlotStateSLOT_LEASED
	SlotBroken     = abiSlotStateSLOT_BROKEN
)

// Values of Spill.
const (
	SpillNone  = abiSpillSPILL_NONE
	SpillRest  = abiSpillSPILL_REST
	SpillWhole = abiSpillSPILL_WHOLE
)

// Values of TableFlags.
const (
	TableSlow         = abiTableFlagsTABLE_SLOW
	TableIgnoresPorts = abiTableFlagsTABLE_IGNORES_PORTS
	TableCutsPorts    = abiTableFlagsTABLE_CUTS_PORTS
	TableCutsDots     = abiTableFlagsTABLE_CUTS_DOTS
	TableHosts        = abiTableFlagsTABLE_HOSTS
	TableHostPrefixes = abiTableFlagsTABLE_HOST_PREFIXES
	TableFields       = abiTableFlagsTABLE_FIELDS
	TableDraw         = abiTableFlagsTABLE_DRAW
	TablePseudo       = abiTableFlagsTABLE_PSEUDO
	TableQuery        = abiTableFlagsTABLE_QUERY
	TableEscapes      = abiTableFlagsTABLE_ESCAPES
	TableDots         = abiTableFlagsTABLE_DOTS
	TableSlashes      = abiTableFlagsTABLE_SLASHES
	TableParameters   = abiTableFlagsTABLE_PARAMETERS
	TableUnderscores  = abiTableFlagsTABLE_UNDERSCORES
	TablePlain        = abiTableFlagsTABLE_PLAIN
)

// Values of Verdict.
const (
	VerdictOk                    = abiVerdictVERDICT_OK
	VerdictConnectIntercepted    = abiVerdictVERDICT_CONNECT_INTERCEPTED
	VerdictConnectOther          = abiVerdictVERDICT_CONNECT_OTHER
	VerdictConnectStaleDaemon    = abiVerdictVERDICT_CONNECT_STALE_DAEMON
	VerdictConnectNoAnchor       = abiVerdictVERDICT_CONNECT_NO_ANCHOR
	VerdictConnectLeftAlone      = abiVerdictVERDICT_CONNECT_LEFT_ALONE
	VerdictConnectOverQuota      = abiVerdictVERDICT_CONNECT_OVER_QUOTA
	VerdictConnectNoMemory       = abiVerdictVERDICT_CONNECT_NO_MEMORY
	VerdictConnectPlain          = abiVerdictVERDICT_CONNECT_PLAIN
	VerdictPSockJoined           = abiVerdictVERDICT_PSOCK_JOINED
	VerdictPSockNotJoined        = abiVerdictVERDICT_PSOCK_NOT_JOINED
	VerdictSSockJoined           = abiVerdictVERDICT_SSOCK_JOINED
	VerdictSSockNotJoined        = abiVerdictVERDICT_SSOCK_NOT_JOINED
	VerdictRequestLeased         = abiVerdictVERDICT_REQUEST_LEASED
	VerdictRequestBody           = abiVerdictVERDICT_REQUEST_BODY
	VerdictRequestOnSlowPath     = abiVerdictVERDICT_REQUEST_ON_SLOW_PATH
	VerdictRequestReturned       = abiVerdictVERDICT_REQUEST_RETURNED
	HandoverFirst                = abiVerdictHANDOVER_FIRST
	HandoverPartialHead          = abiVerdictHANDOVER_PARTIAL_HEAD
	HandoverHeadTooLong          = abiVerdictHANDOVER_HEAD_TOO_LONG
	HandoverMalformed            = abiVerdictHANDOVER_MALFORMED
	HandoverNotHTTP11            = abiVerdictHANDOVER_NOT_HTTP11
	HandoverMethod               = abiVerdictHANDOVER_METHOD
	HandoverTargetForm           = abiVerdictHANDOVER_TARGET_FORM
	HandoverHost                 = abiVerdictHANDOVER_HOST
	HandoverTransferCoding       = abiVerdictHANDOVER_TRANSFER_CODING
	HandoverTrailers             = abiVerdictHANDOVER_TRAILERS
	HandoverConnectionOption     = abiVerdictHANDOVER_CONNECTION_OPTION
	HandoverUpgrade              = abiVerdictHANDOVER_UPGRADE
	HandoverExpect               = abiVerdictHANDOVER_EXPECT
	HandoverBodyTooLong          = abiVerdictHANDOVER_BODY_TOO_LONG
	HandoverPipelined            = abiVerdictHANDOVER_PIPELINED
	HandoverUnread               = abiVerdictHANDOVER_UNREAD
	HandoverRepeatedField        = abiVerdictHANDOVER_REPEATED_FIELD
	HandoverTooManyFields        = abiVerdictHANDOVER_TOO_MANY_FIELDS
	HandoverTooManyParameters    = abiVerdictHANDOVER_TOO_MANY_PARAMETERS
	HandoverListenerGone         = abiVerdictHANDOVER_LISTENER_GONE
	HandoverConnectionLimit      = abiVerdictHANDOVER_CONNECTION_LIMIT
	HandoverTableSlow            = abiVerdictHANDOVER_TABLE_SLOW
	HandoverRouteSlow            = abiVerdictHANDOVER_ROUTE_SLOW
	HandoverNormalize            = abiVerdictHANDOVER_NORMALIZE
	HandoverRewrite              = abiVerdictHANDOVER_REWRITE
	HandoverRetryCopy            = abiVerdictHANDOVER_RETRY_COPY
	HandoverNoVHost              = abiVerdictHANDOVER_NO_VHOST
	HandoverNoRoute              = abiVerdictHANDOVER_NO_ROUTE
	HandoverNoCluster            = abiVerdictHANDOVER_NO_CLUSTER
	HandoverOverflow             = abiVerdictHANDOVER_OVERFLOW
	HandoverClusterSlow          = abiVerdictHANDOVER_CLUSTER_SLOW
	HandoverNoEndpoint           = abiVerdictHANDOVER_NO_ENDPOINT
	HandoverEndpointTLS          = abiVerdictHANDOVER_ENDPOINT_TLS
	HandoverPoolEmpty            = abiVerdictHANDOVER_POOL_EMPTY
	HandoverNoRoom               = abiVerdictHANDOVER_NO_ROOM
	HandoverEndpointLocked       = abiVerdictHANDOVER_ENDPOINT_LOCKED
	HandoverLeaseBroken          = abiVerdictHANDOVER_LEASE_BROKEN
	HandoverBodyMalformed        = abiVerdictHANDOVER_BODY_MALFORMED
	HandoverBodySpilled          = abiVerdictHANDOVER_BODY_SPILLED
	HandoverGuarded              = abiVerdictHANDOVER_GUARDED
	HandoverNoState              = abiVerdictHANDOVER_NO_STATE
	HandoverLast                 = abiVerdictHANDOVER_LAST
	VerdictResponseMoved         = abiVerdictVERDICT_RESPONSE_MOVED
	VerdictResponseEnded         = abiVerdictVERDICT_RESPONSE_ENDED
	VerdictResponseUnasked       = abiVerdictVERDICT_RESPONSE_UNASKED
	VerdictResponseFIN           = abiVerdictVERDICT_RESPONSE_FIN
	VerdictResponseNoClient      = abiVerdictVERDICT_RESPONSE_NO_CLIENT
	VerdictResponseMalformed     = abiVerdictVERDICT_RESPONSE_MALFORMED
	VerdictResponseUnknownSocket = abiVerdictVERDICT_RESPONSE_UNKNOWN_SOCKET
	VerdictSpillFull             = abiVerdictVERDICT_SPILL_FULL
	VerdictSpillLocked           = abiVerdictVERDICT_SPILL_LOCKED
	VerdictSpillFraming          = abiVerdictVERDICT_SPILL_FRAMING
	VerdictSpillConnectionOption = abiVerdictVERDICT_SPILL_CONNECTION_OPTION
	VerdictSpillTooLong          = abiVerdictVERDICT_SPILL_TOO_LONG
	VerdictSpillTrailers         = abiVerdictVERDICT_SPILL_TRAILERS
	VerdictSpillRetry            = abiVerdictVERDICT_SPILL_RETRY
	VerdictSpilled               = abiVerdictVERDICT_SPILLED
	VerdictSegmentTrimmed        = abiVerdictVERDICT_SEGMENT_TRIMMED
	VerdictClientLeft            = abiVerdictVERDICT_CLIENT_LEFT
	VerdictCount                 = abiVerdictVERDICT_COUNT
)
