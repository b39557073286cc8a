package link

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/liquida/liquida/platform/kit"
)

func TestBoardAsksForItsToken(t *testing.T) {
	board := &Board{Token: "secret"}
	t.Cleanup(board.Close)
	server := httptest.NewServer(board.Handler())
	t.Cleanup(server.Close)
	put := func(token, order string) int {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, server.URL+"/links/a-to-b", strings.NewReader(order))
		kit.Must(t, err)
		request.Header.Set("Authorization", "Bearer "+token)
		response, err := http.DefaultClient.Do(request)
		kit.Must(t, err)
		response.Body.Close()
		return response.StatusCode
	}
	good := `{"listen": "127.0.0.1:0", "server": "127.0.0.1:9"}`
	for _, c := range []struct {
		token, order string
		want         int
	}{
		{"", good, http.StatusUnauthorized},
		{"guessed", good, http.StatusUnauthorized},
		{"secret", `{"listen": "0.0.0.0:0", "server": "127.0.0.1:9"}`, http.StatusBadRequest},
		{"secret", `{"listen": "127.0.0.1:0", "server": "nowhere"}`, http.StatusBadRequest},
		{"secret", `{`, http.StatusBadRequest},
		{"secret", good, http.StatusOK},
	} {
		if got := put(c.token, c.order); got != c.want {
			t.Errorf("with token %q, %s answers %d; want %d", c.token, c.order, got, c.want)
		}
	}
}
