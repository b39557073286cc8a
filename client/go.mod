module github.com/liquida/liquida/client

go 1.26.0
