/** The picture at the beginning of the lesson: a slider for the model and a choice of the request.
 *
 * The markup has the figures of all models; this module chooses among them. */

/** Shows the bars of a model. */
function bars(form: HTMLElement, model: number): void {
  for (const bar of form.querySelectorAll<SVGElement>("[data-width-1]")) {
    bar.setAttribute("width", bar.getAttribute(`data-width-${model}`) ?? "0");
  }
  for (const mark of form.querySelectorAll<SVGElement>("[data-x-1]")) {
    const place = mark.getAttribute(`data-x-${model}`) ?? "0";
    mark.setAttribute("x1", place);
    mark.setAttribute("x2", place);
  }
  for (const text of form.querySelectorAll<HTMLElement>("[data-text-1]")) {
    text.textContent = text.getAttribute(`data-text-${model}`);
  }
}

/** Shows what belongs to a model, and lights the partitions that a request asks. */
function parts(form: HTMLElement, model: number, request: string): void {
  for (const part of form.querySelectorAll<HTMLElement>("[data-for]")) {
    part.hidden = part.dataset.for !== String(model);
  }
  for (const square of form.querySelectorAll<SVGElement>("[data-by]")) {
    square.classList.toggle("lit", (square.dataset.by ?? "").split(" ").includes(request));
  }
  if (form.dataset.poll !== undefined) return;
  for (const words of form.querySelectorAll<HTMLElement>("[data-asked]")) {
    words.textContent = `${words.dataset[request] ?? "0"} of ${words.dataset.count} asked`;
  }
}

function picture(form: HTMLFormElement): void {
  const slider = form.querySelector<HTMLInputElement>("input[type='range']");
  const rows = form.querySelector<HTMLElement>(".price-rows");
  if (!slider || !rows) return;

  const update = (): void => {
    const model = Number(slider.value);
    const chosen = form.querySelector<HTMLInputElement>("input[name='request']:checked");
    const request = chosen?.value ?? "q6";
    slider.setAttribute("aria-valuetext", `V${model}`);
    rows.dataset.model = `v${model}`;
    bars(form, model);
    parts(form, model, request);
    for (const stop of form.querySelectorAll<HTMLAnchorElement>("[data-stop]")) {
      if (stop.dataset.stop === slider.value) stop.setAttribute("aria-current", "true");
      else stop.removeAttribute("aria-current");
      stop.href = `/lesson?model=${stop.dataset.stop}&request=${request}`;
    }
    const address = `/lesson?model=${model}&request=${request}`;
    if (form.dataset.poll !== undefined) form.dataset.poll = address;
    history.replaceState(null, "", address);
  };

  form.addEventListener("input", update);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
  });
  for (const stop of form.querySelectorAll<HTMLAnchorElement>("[data-stop]")) {
    stop.addEventListener("click", (event) => {
      event.preventDefault();
      slider.value = stop.dataset.stop ?? "1";
      update();
    });
  }
  // A browser that comes back to the page puts the slider where it was.
  if (slider.value !== form.dataset.shown) update();
}

/** Starts the picture below `root`, or in `root` itself. */
export function opening(root: ParentNode): void {
  const own = "form[data-picture='opening']";
  if (root instanceof HTMLFormElement && root.matches(own)) picture(root);
  for (const form of root.querySelectorAll<HTMLFormElement>(own)) picture(form);
}
