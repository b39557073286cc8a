package frontdoor

import (
	"embed"
	"net/http"

	"github.com/swaggest/swgui/v5/static"
	"github.com/vearutop/statigz"
)

//go:embed viewer
var viewer embed.FS

// viewerPolicy lets the page load and call nothing but this server. Swagger UI sets no style
// or script inside the page; its icons are data URLs.
const viewerPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// serveViewer serves Swagger UI on /docs. Its module embeds it: it works without Internet.
func serveViewer(mux *http.ServeMux) {
	page := func(file string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Security-Policy", viewerPolicy)
			w.Header().Set("X-Content-Type-Options", "nosniff")
			w.Header().Set("Referrer-Policy", "no-referrer")
			http.ServeFileFS(w, r, viewer, file)
		}
	}
	mux.HandleFunc("GET /docs", page("viewer/index.html"))
	mux.HandleFunc("GET /docs/start.js", page("viewer/start.js"))
	mux.Handle("GET /docs/", http.StripPrefix("/docs/", statigz.FileServer(static.FS)))
}
