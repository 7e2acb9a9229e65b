// Post-trigger of the feed container: keeps only the 100 newest posts.
// It counts the others and adds the item just written itself, so it does not matter whether a query inside a trigger
// already sees that item. An old post that comes again is itself the one to go.
function truncateFeed() {
  var MAX_POSTS = 100;
  var collection = getContext().getCollection();
  var self = collection.getSelfLink();
  var written = getContext().getResponse().getBody();
  var others = [{ name: '@id', value: written.id }];

  function must(accepted) {
    if (!accepted) throw new Error(503, 'truncateFeed ran out of its time budget; nothing was changed');
  }

  function countOthers() {
    var query = { query: 'SELECT VALUE COUNT(1) FROM f WHERE f.id != @id', parameters: others };
    must(collection.queryDocuments(self, query, function (err, rows) {
      if (err) throw err;
      var tooMany = rows[0] + 1 - MAX_POSTS;
      if (tooMany > 0) findOldest(tooMany);
    }));
  }

  function findOldest(tooMany) {
    var query = {
      query: 'SELECT TOP ' + tooMany + ' * FROM f WHERE f.id != @id ORDER BY f.creationDate',
      parameters: others
    };
    must(collection.queryDocuments(self, query, { pageSize: tooMany }, function (err, posts) {
      if (err) throw err;
      posts.push(written);
      posts.sort(function (a, b) {
        return a.creationDate < b.creationDate ? -1 : a.creationDate > b.creationDate ? 1 : 0;
      });
      remove(posts.slice(0, tooMany), 0);
    }));
  }

  function remove(posts, index) {
    if (index === posts.length) return;
    must(collection.deleteDocument(posts[index]._self, function (err) {
      if (err) throw err;
      remove(posts, index + 1);
    }));
  }

  countOthers();
}
