"""The benchmark: models of known acceptance, timed arms, pages. `foreword bench` runs it."""
