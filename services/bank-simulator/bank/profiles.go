package bank

import (
	"errors"
	"net/http"

	"go.uber.org/zap"

	"github.com/liquida/liquida/platform/web"
	"github.com/liquida/liquida/services/bank-simulator/decision"
)

// profilesAPI shows and changes how the banks behave. The path names the profile:
// /v1/profiles/10000001 a bank, /v1/profiles/10000001/9003 a branch of it. The bank
// "default" stands for every bank.
func profilesAPI(catalog *decision.Catalog, log *zap.Logger) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/profiles", func(w http.ResponseWriter, _ *http.Request) {
		web.WriteJSON(w, http.StatusOK, catalog.Profiles())
	})

	for _, path := range []string{"/v1/profiles/{bank}", "/v1/profiles/{bank}/{branch}"} {
		mux.HandleFunc("GET "+path,
			named(func(w http.ResponseWriter, _ *http.Request, whose decision.Whose) *web.Problem {
				profile, ok := catalog.Profiles()[whose]
				if !ok {
					return &web.Problem{Type: web.Kind("no-profile"), Title: "No profile", Status: http.StatusNotFound,
						Detail: whose.String() +
							" has no profile of its own: a more general one applies, see GET /v1/profiles"}
				}
				web.WriteJSON(w, http.StatusOK, profile)

				return nil
			}))
		mux.HandleFunc("PUT "+path,
			named(func(w http.ResponseWriter, r *http.Request, whose decision.Whose) *web.Problem {
				var draft decision.Draft
				if problem := web.ReadJSON(r.Body, &draft); problem != nil {
					return problem
				}

				profile, err := catalog.Put(whose, draft)
				if err != nil {
					return refusal(err)
				}
				log.Info("profile changed", zap.Stringer("whose", whose), zap.Any("profile", profile))
				web.WriteJSON(w, http.StatusOK, profile)

				return nil
			}))
		mux.HandleFunc("DELETE "+path,
			named(func(w http.ResponseWriter, _ *http.Request, whose decision.Whose) *web.Problem {
				catalog.Reset(whose)
				log.Info("profile reset to the initial one, if any", zap.Stringer("whose", whose))
				w.WriteHeader(http.StatusNoContent)

				return nil
			}))
	}

	return mux
}

func named(handle func(http.ResponseWriter, *http.Request, decision.Whose) *web.Problem) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("bank")
		if branch := r.PathValue("branch"); branch != "" {
			name += "/" + branch
		}
		whose, err := decision.ParseWhose(name)

		problem := refusal(err)
		if problem == nil {
			problem = handle(w, r, whose)
		}

		if problem != nil {
			problem.Write(w)
		}
	}
}

func refusal(err error) *web.Problem {
	if err == nil {
		return nil
	}

	if full := new(decision.Full); errors.As(err, &full) {
		return &web.Problem{Type: web.Kind("too-many-profiles"), Title: "Too many profiles",
			Status: http.StatusConflict, Detail: err.Error()}
	}

	problem := &web.Problem{Type: web.Kind("invalid-value"), Title: "Invalid value",
		Status: http.StatusUnprocessableEntity, Detail: err.Error()}
	if invalid := new(decision.Invalid); errors.As(err, &invalid) {
		problem.Field, problem.Value = invalid.Field, invalid.Value
	}

	return problem
}
