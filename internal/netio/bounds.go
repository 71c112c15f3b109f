package netio

import "time"

// Every number of this package, with its unit and its reason.
const (
	// MaxStrangers bounds the sessions of keys that are neither in the roster nor hold a row: a leader that is asked by a
	// whole hall of new machines serves 64 at a time.
	MaxStrangers = 64
	// MaxStrangersPerSource bounds them per source network (IPv4 address, IPv6 /64), so that one machine can't take all.
	MaxStrangersPerSource = 4
	// KeptForFleetSummary of MaxStrangers serve nothing but FleetSummary, so that fleets can still meet.
	KeptForFleetSummary = 8
	// StrangerGrace is how long a stranger's session keeps its place from another for which there is none: several times what
	// an ask takes over a poor link. StrangerTurn is the same where its network holds at least two more than the other's, so
	// that a few networks with many sessions keep out nobody who comes from elsewhere.
	StrangerGrace = 3 * time.Second
	StrangerTurn  = 250 * time.Millisecond
	// MaxSessionsPerKey bounds the inbound sessions of one key that is in no roster, and MaxSessionsPerMember those of a member's:
	// an honest machine has one, a few more while it comes back, and its doctor's. Who holds a row is no stranger any more, and
	// one row would be as many sessions as somebody likes.
	MaxSessionsPerKey    = 8
	MaxSessionsPerMember = 32
	// HandshakeWithin is how long a TLS handshake may take.
	HandshakeWithin = 5 * time.Second
	// FirstRequestWithin is how long after the handshake a stranger's first request may take.
	FirstRequestWithin = 5 * time.Second
	// FirstRequestCeiling is the largest first request of a stranger, in bytes: a Hello fits.
	FirstRequestCeiling = 4 << 10
	// AnswerWithin is how long this side may work on a stranger's request before it gives the session up.
	AnswerWithin = 30 * time.Second
	// CloseAfterAnswer is how long a stranger's session stays open after its last answer.
	CloseAfterAnswer = 10 * time.Second
	// DuplicatePing is how long the older of two sessions of one key has to answer before the newer replaces it.
	DuplicatePing = 2 * time.Second

	// maxHandshakes bounds handshakes under way, and maxHandshakesPerSource those of one source network: the key is not
	// known yet, and a site of many members behind one address comes back all at once. A handshake costs about 16 KiB.
	maxHandshakes          = 256
	maxHandshakesPerSource = 32
	// handshakeGrace is how long a handshake keeps its place from another where there is none: several times what one takes
	// over a poor link.
	handshakeGrace = time.Second
	// maxLingering bounds connections that are kept only to be told why they are refused.
	maxLingering = 16
	// lingerWithin is how long a refused peer has to ask, and so be told; lingerAfter how long it has to read it.
	lingerWithin = 5 * time.Second
	lingerAfter  = time.Second
	// knownSweep is how often inbound sessions are asked whether their key is still known.
	knownSweep = 10 * time.Second

	// keepAlive is how often the end that dialed pings a session, and pingTimeout how long an answer, or a stuck write, may
	// take. The other end looks every listenSweep for sessions of which nothing was heard for silentAfter, and pings them.
	keepAlive   = 10 * time.Second
	silentAfter = 12 * time.Second
	listenSweep = 5 * time.Second
	pingTimeout = 10 * time.Second
	// streamOpenTimeout: a peer that does not accept a stream within this has hung; its session is closed.
	streamOpenTimeout = 30 * time.Second
	// streamCloseTimeout: a stream closed on this side only is dropped after this.
	streamCloseTimeout = 30 * time.Second
	// streamBacklog is how many streams may wait for the other end; a member has a handful.
	streamBacklog = 16
	// streamWindow is the receive window of a stream, in bytes: the least that yamux allows.
	streamWindow = 256 << 10
	// maxPiece is the most that is handed to the session library at once, in bytes: it keeps a buffer of the largest piece
	// that it ever wrote for as long as the session lives, and every learner is sent a snapshot once.
	maxPiece = 1 << 10
	// maxPeerStreams bounds the streams that a member has open at once, maxStrangerStreams those of anybody else.
	maxPeerStreams     = 64
	maxStrangerStreams = 4

	// What a peer outside the roster may send in a minute on a session: streams opened, pings, bytes on its own streams,
	// and the bytes of one yamux frame. An honest one sends a Hello, an Enroll a minute and six pings. Without these a
	// header of 12 bytes makes the library reserve a window.
	floodWindow   = time.Minute
	floodStreams  = 64
	floodPings    = 64
	floodBytes    = 128 << 10
	floodOneFrame = 64 << 10

	// raftTryWithin bounds one endpoint of a voter while another one of it is left to try.
	raftTryWithin = 3 * time.Second
	// dialWithin bounds a dial with its handshake, where the caller's context does not.
	dialWithin = 10 * time.Second
	// requestWithin is how long a request's header may take after its stream opened, or a small payload after the
	// header; largePayloadWithin is for payloads beyond FirstRequestCeiling (4 MiB at 70 KB/s).
	requestWithin      = 5 * time.Second
	largePayloadWithin = 60 * time.Second
	// writeWithin is how long a reply may wait for a peer that does not read.
	writeWithin = 30 * time.Second

	// raftHeaderWithin is how long a consensus connection may take to name itself after its handshake.
	raftHeaderWithin = 5 * time.Second
	// raftBacklog bounds consensus streams that raft has not taken yet.
	raftBacklog = 16

	// receiveQueue is how many datagrams wait for the event loop, over both sockets; then new ones are dropped, counted.
	receiveQueue = 256
	// datagramBuffer is larger than any datagram of the wire, so that a too long one is seen as too long.
	datagramBuffer = 2048
	// receiveBuffer is the kernel's receive buffer of each socket, in bytes: a beat of some hundred machines.
	receiveBuffer = 1 << 20
	// retryLeast and retryMost bound the wait after an error of a socket that stays open, so that an error that
	// repeats does not take a core.
	retryLeast = 5 * time.Millisecond
	retryMost  = time.Second
	// portTries is how often a free port is looked for that is free at every address at once.
	portTries = 16
	// sourceBitsIPv4 and sourceBitsIPv6 are the prefixes that count as one source: who has one address of a /64 has all of them.
	sourceBitsIPv4, sourceBitsIPv6 = 32, 64
	// noiseEvery is how often a kind of log line is repeated; it says how many it stands for.
	noiseEvery = time.Minute
	// noiseKinds bounds the kinds that are remembered.
	noiseKinds = 64
)
