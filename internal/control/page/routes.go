package page

import (
	"net/http"
	"time"

	"pace-node/internal/control"
)

// route is one path of the API.
type route struct {
	Method string
	Path   string
	Open   bool // asks for no session: it is where one is got
	Serve  func(p *Page, w http.ResponseWriter, q *request)
}

// Changes reports whether the route changes something.
func (r *route) Changes() bool { return r.Method != http.MethodGet }

// routes is the table of paths: the session, the documents, the stream, and the changes of Actions.
var routes = allRoutes()

func allRoutes() []route {
	out := []route{
		{http.MethodGet, "/api/v1/session", true, (*Page).sessionState},
		{http.MethodPost, "/api/v1/session", true, (*Page).sessionBegin},
		{http.MethodDelete, "/api/v1/session", true, (*Page).sessionEnd},
		{http.MethodGet, "/api/v1/events", false, (*Page).events},
	}
	for _, d := range documents {
		out = append(out, route{http.MethodGet, "/api/v1/" + d.Name, false, func(p *Page, w http.ResponseWriter, q *request) { p.showDocument(w, q, d.Name) }})
	}
	for _, a := range Actions {
		out = append(out, route{http.MethodPost, "/api/v1/" + a.Path, false, func(p *Page, w http.ResponseWriter, q *request) { p.act(w, q, a) }})
	}
	return out
}

// SessionDocument is the answer of /api/v1/session.
type SessionDocument struct {
	V       int    `json:"v"`
	Changes bool   `json:"changes"`           // this browser may change something
	Reads   bool   `json:"reads"`             // and read
	Token   bool   `json:"token"`             // a token may be typed
	LeftMS  int64  `json:"left_ms,omitempty"` // of the session
	Secret  string `json:"secret,omitempty"`  // what X-Pace-Session carries from now on; of the session's begin only
}

func (p *Page) sessionState(w http.ResponseWriter, q *request) {
	p.answer(w, http.StatusOK, &SessionDocument{V: control.DocumentVersion, Changes: q.change, Token: p.cfg.Credentials.HasToken(),
		Reads: q.read || control.ReachOf(q.r.Context()).Loopback, LeftMS: q.left.Milliseconds()})
}

// sessionBegin takes a one-time token, or the one of --admin-token-file, for a session.
func (p *Page) sessionBegin(w http.ResponseWriter, q *request) {
	now, text := time.Now(), q.body["token"]
	if !p.sessions.spend(now, text) {
		switch p.judge(now, source(q.r), text) {
		case bearerRight:
		case bearerTooMany:
			p.refuse(w, "tries", http.StatusTooManyRequests, "too many wrong tokens came from there", "try again in a minute")
			return
		default:
			p.refuse(w, "token", http.StatusUnauthorized, "this address was used already or is too old, or this is not the token", "type pacectl dashboard on this machine again, or the token of --admin-token-file")
			return
		}
	}
	cookie, header := p.sessions.begin(now)
	p.setCookie(w, q.r, cookie, SessionLife)
	p.cfg.Logger.Info("web page opened for changes", "from", source(q.r))
	p.answer(w, http.StatusOK, &SessionDocument{V: control.DocumentVersion, Changes: true, Reads: true, Token: p.cfg.Credentials.HasToken(), LeftMS: SessionLife.Milliseconds(), Secret: header})
}

func (p *Page) setCookie(w http.ResponseWriter, r *http.Request, value string, life time.Duration) {
	http.SetCookie(w, &http.Cookie{Name: cookieName(r), Value: value, Path: "/", MaxAge: int(life.Seconds()), HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode})
}

func (p *Page) sessionEnd(w http.ResponseWriter, q *request) {
	if q.change { // else nobody here can say that it is theirs
		p.sessions.end(cookieOf(q.r))
	}
	p.setCookie(w, q.r, "", -time.Second)
	p.answer(w, http.StatusOK, &SessionDocument{V: control.DocumentVersion, Token: p.cfg.Credentials.HasToken(), Reads: control.ReachOf(q.r.Context()).Loopback})
}
